"""What all front ends write TFLite operators with."""
