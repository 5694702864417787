#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "hub/disk.h"
#include "hub/http.h"

// One file, until it is there or cannot be had.

namespace helix::hub {

// How often and how long something is tried that may be better a moment later. What has moved on
// may be tried as often again.
struct Patience {
    HttpPatience http;
    int tries = 5;
    base::Duration first_pause = base::from_seconds(1);
    base::Duration longest_pause = base::from_seconds(30);
    int waits = 10;  // as the server asks for; in a row
};

// What the world is to a download.
struct World {
    Http* http = nullptr;
    Patience patience;
    Disk disk = real_disk();
    // Waits; why is for users.
    std::function<void(base::Duration pause, const std::string& why)> pause;
};

struct FileAddress {
    std::string address;
    std::string token;            // for this address alone; "": none
    bool signed_address = false;  // it may expire
};

struct Download {
    std::string what;                    // for messages
    std::filesystem::path path;          // where it is to be
    std::filesystem::path lock;          // held while it arrives
    std::optional<std::uint64_t> bytes;  // as promised; absent: as the server says
    std::string sha256;                  // as promised; "": not
    std::string git_sha1;                // as promised; "": not
    // Where it is now. Asked again when an address has expired.
    std::function<base::Result<FileAddress>()> address;
    // What has arrived in all, and how much that will be (0: unknown).
    std::function<void(std::uint64_t done, std::uint64_t total)> progress;
};

struct Downloaded {
    std::uint64_t bytes = 0;
    std::uint64_t received = 0;  // over the network, by us
    std::string hash;            // of its content as promised, else SHA-256; "" if it was there
};

// Brings the file. What has arrived lies in PATH.helix-part and is continued by the next call, also
// one of another process; while another process is at it, this waits and shows its progress. A file
// whose length or hash is not as promised is an error, and nothing of it stays.
base::Result<Downloaded> download(const Download& file, const World& world);

// What has arrived of a file that is not there yet.
std::uint64_t arrived_bytes(const std::filesystem::path& path);

}  // namespace helix::hub
