"""What scripts written for pycaffe import: `import swcaffe as caffe`."""
