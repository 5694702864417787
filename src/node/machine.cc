#include <unistd.h>

#include <array>
#include <fstream>
#include <string>

#include "node/worker_session.h"

namespace helix::node {

std::string machine_id() {
    // The machine's own id, which containers of one machine share where it is mounted; where there
    // is none the boot's id tells machines apart.
    for (const char* path : {"/etc/machine-id", "/proc/sys/kernel/random/boot_id"}) {
        std::ifstream file(path);
        std::string id;
        if (file >> id && !id.empty()) return id;
    }
    std::array<char, 256> name = {};
    ::gethostname(name.data(), name.size() - 1);
    return name.data();
}

}  // namespace helix::node
