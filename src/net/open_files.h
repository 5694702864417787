#pragma once

#include <cstddef>
#include <string_view>

#include "base/result.h"

// File descriptors are shared by the whole process, so each part takes a share of them.

namespace helix::net {

// Raises the soft limit of open files to the hard one; returns what it is now.
std::size_t raise_open_file_limit();
// The same. Error invalid when that is fewer than least; it names who needs them, and both numbers.
base::Result<std::size_t> require_open_files(std::string_view who, std::size_t least);

// How many HTTP connections there may be with this many open files: half of them, at most 4096.
std::size_t connections_for(std::size_t open_files);
// How many peers one cluster port may have: each takes three files, and all together three eighths
// of them; at most 1024.
std::size_t peers_for(std::size_t open_files);

// One descriptor, kept so that it can be used when there is no other: to accept somebody and to say
// that there is no room.
class SpareDescriptor {
  public:
    SpareDescriptor();
    ~SpareDescriptor();
    SpareDescriptor(const SpareDescriptor&) = delete;
    SpareDescriptor& operator=(const SpareDescriptor&) = delete;

    bool take();  // true: it is here (again)
    void release();
    // Closes what fd is and keeps its number in place of the one that was released. It does so in
    // one step, so that nobody else can take the number meanwhile.
    void take_over(int fd);

  private:
    int pattern_;  // what the spare one is a copy of
    int fd_ = -1;
};

}  // namespace helix::net
