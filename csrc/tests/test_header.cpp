// Only so that the header of all tests is compiled with the flags of a test program (csrc/CMakeLists.txt).
#include <gtest/gtest.h>
