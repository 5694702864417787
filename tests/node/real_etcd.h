#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "node/leadership.h"

namespace helix::node::test_support {

inline std::string free_etcd_port() {
    const int probe = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof address;
    EXPECT_EQ(::bind(probe, reinterpret_cast<sockaddr*>(&address), bytes), 0);
    EXPECT_EQ(::getsockname(probe, reinterpret_cast<sockaddr*>(&address), &bytes), 0);
    ::close(probe);
    return std::to_string(ntohs(address.sin_port));
}

// An etcd of one member, while it lives.
class RealEtcd {
  public:
    RealEtcd() : port_(free_etcd_port()) {
        const std::string client = "http://127.0.0.1:" + port_;
        const std::string peer = "http://127.0.0.1:" + free_etcd_port();
        std::vector<std::string> words = {"etcd",
                                          "--name",
                                          "t",
                                          "--data-dir",
                                          folder_ + "/etcd",
                                          "--listen-client-urls",
                                          client,
                                          "--advertise-client-urls",
                                          client,
                                          "--listen-peer-urls",
                                          peer,
                                          "--initial-advertise-peer-urls",
                                          peer,
                                          "--initial-cluster",
                                          "t=" + peer,
                                          "--unsafe-no-fsync"};
        std::vector<char*> argv;
        for (std::string& word : words) argv.push_back(word.data());
        argv.push_back(nullptr);
        posix_spawn_file_actions_t files;
        posix_spawn_file_actions_init(&files);
        posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
        posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
        if (::posix_spawnp(&pid_, "etcd", &files, nullptr, argv.data(), environ) != 0) pid_ = 0;
        posix_spawn_file_actions_destroy(&files);
        if (pid_ == 0) return;
        const auto answers = [&] {
            auto etcd = Etcd::create(target());
            return etcd.ok() && (*etcd)->read("k", std::chrono::milliseconds(500)).ok();
        };
        const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        bool there = answers();
        while (!there && std::chrono::steady_clock::now() < until) {
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
            there = answers();
        }
        EXPECT_TRUE(there) << "etcd does not start";
    }
    ~RealEtcd() {
        if (pid_ != 0) {
            say(SIGCONT);
            say(SIGKILL);
            ::waitpid(pid_, nullptr, 0);
        }
        std::filesystem::remove_all(folder_);
    }
    RealEtcd(const RealEtcd&) = delete;
    RealEtcd& operator=(const RealEtcd&) = delete;

    bool there() const { return pid_ != 0; }
    void say(int signal) const { ::kill(pid_, signal); }
    net::HttpTarget target() const { return {"127.0.0.1", port_, ""}; }
    std::string url() const { return "etcd://127.0.0.1:" + port_ + "/test"; }
    LeadershipOptions options(const std::string& name) const {
        LeadershipOptions made;
        made.etcd = target();
        made.cluster = "test";
        made.name = name;
        made.lease_s = 2;
        return made;
    }

  private:
    static std::string make_folder() {
        std::string path = testing::TempDir() + "/helix-etcd-XXXXXX";
        EXPECT_NE(::mkdtemp(path.data()), nullptr);
        return path;
    }

    std::string folder_ = make_folder();
    std::string port_;
    pid_t pid_ = 0;
};

}  // namespace helix::node::test_support
