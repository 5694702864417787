#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "../api/timed_service.h"
#include "api/api_server.h"

// The real API server in front of a model that always says the same: what the client tests run
// against when there is no cluster. Keeps files and responses in $HELIX_STATE_DIR, if that is set.
// Prints its address and serves until standard input ends.
int main() {
    using namespace helix;
    api::TimedService service(
        std::chrono::milliseconds(1),
        "The quick brown fox jumps over the lazy dog. \xC3\x84pfel, na\xC3\xAFve "
        "caf\xC3\xA9s and \xF0\x9F\x98\x80 end it.");
    api::ApiOptions options;
    options.seed = 1;
    if (const char* folder = std::getenv("HELIX_STATE_DIR")) {
        options.jobs = api::JobOptions{};
        options.jobs->place.folder = folder;
    }
    auto server = api::ApiServer::start(std::move(options), api::byte_model(service));
    if (!server.ok()) {
        std::fprintf(stderr, "%s\n", server.error().message.c_str());
        return 1;
    }
    std::printf("http://127.0.0.1:%d\n", (*server)->port());
    std::fflush(stdout);
    char byte = 0;
    while (::read(STDIN_FILENO, &byte, 1) > 0) {
    }
    return 0;
}
