#pragma once

// What operators work on. device/memory.h says what they are; only a device knows what is in them.

namespace helix::engine {

class Buffer;
class Matrix;
class Routing;
class KvArena;

}  // namespace helix::engine
