// Writes records through the database code inside the reference wheel, which has no tool for it.
// make_interop.py compiles this against the wheel's library and calls it after `import caffe`.
#include <string>

namespace caffe {
namespace db {

enum Mode { READ, WRITE, NEW };

class Cursor;

class Transaction {
 public:
  virtual ~Transaction() {}
  virtual void Put(const std::string& key, const std::string& value) = 0;
  virtual void Commit() = 0;
};

class DB {
 public:
  virtual ~DB() {}
  virtual void Open(const std::string& source, Mode mode) = 0;
  virtual void Close() = 0;
  virtual Cursor* NewCursor() = 0;
  virtual Transaction* NewTransaction() = 0;
};

DB* GetDB(const std::string& backend);

}  // namespace db
}  // namespace caffe

extern "C" void write_db(const char* backend, const char* path, int count, const char** keys,
                         const char** values, const int* sizes) {
  caffe::db::DB* db = caffe::db::GetDB(backend);
  db->Open(path, caffe::db::NEW);
  caffe::db::Transaction* transaction = db->NewTransaction();
  for (int i = 0; i < count; ++i) transaction->Put(keys[i], std::string(values[i], sizes[i]));
  transaction->Commit();
  delete transaction;
  db->Close();
  delete db;
}
