"""What the front ends write TFLite operators with, whichever framework a model comes from."""
