// Vulkan's functions, looked up at run time: volk has all of itself in its header.
#define VOLK_IMPLEMENTATION
#include <volk.h>
