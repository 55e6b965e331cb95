// Only so that standard headers are compiled with the flags of a library (csrc/CMakeLists.txt).
#include <vector>
