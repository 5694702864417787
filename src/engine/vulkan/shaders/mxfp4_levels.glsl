// Of MXFP4 and NVFP4.
const int kLevels[16] = int[](0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
