#!/usr/bin/env bash
# From a fresh machine with Python 3.10 and pip to a trained net: makes a virtual environment,
# installs swcaffe from wheels, gets MNIST, trains LeNet on the emulated SW26010, draws the curve.
#
#   tools/quickstart.sh            1,000 iterations
#   tools/quickstart.sh 10000      that many
#   ENGINE=host tools/quickstart.sh    on the host engine instead
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

iterations=${1:-1000}
python=${PYTHON:-python3}
case $iterations in
    '' | *[!0-9]*) echo "usage: tools/quickstart.sh [ITERATIONS]" >&2; exit 2 ;;
esac
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || {
    echo "swcaffe needs Python 3.10 or newer, found $("$python" --version); set PYTHON=..." >&2
    exit 2
}

echo "== 1/5 virtual environment and packages (wheels only) in .venv"
[ -x .venv/bin/python ] || "$python" -m venv .venv || {
    echo "making a virtual environment failed; on Debian and Ubuntu: apt install python3-venv" >&2
    exit 1
}
PATH="$PWD/.venv/bin:$PATH"
python -c 'import swcaffe, matplotlib' 2>/dev/null ||
    python -m pip install --quiet --disable-pip-version-check --prefer-binary --editable '.[plot]'

echo "== 2/5 data"
python -m swcaffe.data.fetch mnist --to data/mnist

echo "== 3/5 databases"
for set in train test; do
    [ "$set" = train ] && files=train || files=t10k
    if [ ! -d "data/mnist/mnist_${set}_lmdb" ]; then
        swcaffe convert_mnist_data "data/mnist/$files-images-idx3-ubyte" \
            "data/mnist/$files-labels-idx1-ubyte" "data/mnist/mnist_${set}_lmdb" \
            2> >(grep -v Processed >&2)
    fi
done

folder=quickstart-$(date +%Y%m%d-%H%M%S)
mkdir "$folder"
echo "== 4/5 training LeNet for $iterations iterations (log in $folder/train.log)"
interval=$((iterations / 10 > 100 ? iterations / 10 : 100))
sed -e "s/^max_iter:.*/max_iter: $iterations/" \
    -e "s/^display:.*/display: 20/" -e "s/^test_interval:.*/test_interval: $interval/" \
    -e "s#^snapshot_prefix:.*#snapshot_prefix: \"$folder/lenet\"#" \
    prototxt_models/lenet/solver.prototxt > "$folder/solver.prototxt"
swcaffe train --solver "$folder/solver.prototxt" --engine "${ENGINE:-sw26010}" \
    --log_json "$folder/train.json" 2>&1 | tee "$folder/train.log" |
    grep --line-buffered -E '(Iteration [0-9]*00 \(|Test net output|Use )' | cut -d']' -f2-

echo "== 5/5 result"
python - "$folder" "$iterations" <<'PY'
import json
import pathlib
import sys

folder, iterations = pathlib.Path(sys.argv[1]), int(sys.argv[2])
events = [json.loads(line) for line in (folder / "train.json").open()]
tests = [event for event in events if event["event"] == "test"]
source = json.loads(pathlib.Path("data/mnist/SOURCE.json").read_text())
accuracy = tests[-1]["outputs"]["accuracy"]
print(f"test accuracy {accuracy:.4f} after {iterations} iterations")
records = source["records"]
print(f"data set: {source['dataset']}, {records['train']} training and {records['test']} test records,")
print(f"from {source['origin']}")
if source["full"] and iterations >= 1000:
    goal = 0.99 if iterations >= 10000 else 0.98
    verdict = "as it should be" if accuracy >= goal else "TOO LOW"
    print(f"on the full MNIST at least {goal} is expected: {verdict}")
    sys.exit(accuracy < goal)
print("nothing is claimed about accuracy here: that takes the full MNIST and 1,000 iterations")
PY
swcaffe plot "$folder/train.json" --output "$folder/curve.png" --title "LeNet, $iterations iterations"
weights=$folder/lenet_iter_$iterations
cat <<TEXT

Try next (after: source .venv/bin/activate)
  swcaffe test --model prototxt_models/lenet/train_val.prototxt --weights $weights.caffemodel --all
  swcaffe time --model prototxt_models/lenet/train_val.prototxt --iterations 10
  raise max_iter in $folder/solver.prototxt, then
  swcaffe train --solver $folder/solver.prototxt --snapshot $weights.solverstate
  docs/tutorial.md takes you to a net of your own on your own pictures.
TEXT
