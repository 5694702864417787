#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <glob.h>
#include <grp.h>
#include <libpq-fe.h>
#include <netinet/in.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace helix::test_support {

// A real PostgreSQL of Debian's package in a folder of its own, while it lives; it answers on a
// socket in the folder, without a password, and on a port of 127.0.0.1, with one. It keeps nothing
// on disk for sure, which only the end of the machine could show. Without the package there() is
// false.
class PostgresServer {
  public:
    static constexpr const char* kUser = "helix";
    static constexpr const char* kPassword = "open-sesame-17";

    PostgresServer() : programs_(find_programs()), port_(free_port()) {
        if (!there()) return;
        // Root may not run it.
        if (::geteuid() == 0) {
            const passwd* account = ::getpwnam("postgres");
            if (account != nullptr) uid_ = account->pw_uid, gid_ = account->pw_gid;
            EXPECT_NE(uid_, 0U) << "there is no user postgres";
            EXPECT_EQ(::chown(folder_.c_str(), uid_, gid_), 0);
        }
        std::ofstream(folder_ + "/password") << kPassword << "\n";
        const int made = wait_for(spawn({programs_ + "/initdb", "-D", folder_ + "/data", "-U",
                                         kUser, "--auth-local=trust", "--auth-host=scram-sha-256",
                                         "--pwfile=" + folder_ + "/password", "--no-sync",
                                         "--no-instructions", "-E", "SQL_ASCII", "--locale=C"}));
        EXPECT_EQ(made, 0) << log();
        start();
    }
    ~PostgresServer() {
        say(SIGCONT);
        kill(SIGQUIT);
        std::error_code ignored;
        std::filesystem::remove_all(folder_, ignored);
    }
    PostgresServer(const PostgresServer&) = delete;
    PostgresServer& operator=(const PostgresServer&) = delete;

    // One for all tests of a process, which it ends with.
    static PostgresServer& shared() {
        static PostgresServer server;
        return server;
    }

    bool there() const { return !programs_.empty(); }
    const std::string& port() const { return port_; }
    // By the socket; of a client that is called so on the server's side.
    std::string url(const std::string& database = "postgres") const {
        return std::string("postgres://") + kUser + "@/" + database + "?host=" + folder_ +
               "&port=" + port_;
    }
    // By the port; without a password when it is "".
    std::string port_url(const std::string& password, const std::string& database = "postgres",
                         const std::string& more = "") const {
        return std::string("postgres://") + kUser + (password.empty() ? "" : ":" + password) +
               "@127.0.0.1:" + port_ + "/" + database + more;
    }

    void start() {
        pid_ = spawn({programs_ + "/postgres", "-D", folder_ + "/data", "-k", folder_, "-p", port_,
                      "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-c",
                      "shared_buffers=16MB", "-c", "max_connections=40"});
        const auto answers = [&] { return PQping(url().c_str()) == PQPING_OK; };
        EXPECT_TRUE(soon(answers)) << "PostgreSQL does not start: " << log();
    }
    // To the server and all processes of it.
    void say(int signal) const {
        if (pid_ <= 0) return;
        const std::string pid = std::to_string(pid_);
        std::ifstream children("/proc/" + pid + "/task/" + pid + "/children");
        pid_t child = 0;
        while (children >> child) ::kill(child, signal);
        ::kill(pid_, signal);
    }
    void kill(int signal = SIGKILL) {
        if (pid_ <= 0) return;
        ::kill(pid_, signal);
        ::waitpid(pid_, nullptr, 0);
        pid_ = 0;
        // Its processes follow it; until then another one does not start.
        EXPECT_TRUE(soon([&] { return PQping(url().c_str()) == PQPING_NO_RESPONSE; }));
    }

    // From now on it speaks TLS on its port, with this certificate; "" = no longer.
    void encrypt(const std::string& certificate, const std::string& key) const {
        namespace fs = std::filesystem;
        for (const auto& [from, name] : {std::pair{certificate, "tls.crt"}, {key, "tls.key"}}) {
            if (from.empty()) continue;
            const std::string to = folder_ + "/data/" + name;
            fs::copy_file(from, to, fs::copy_options::overwrite_existing);
            fs::permissions(to, fs::perms::owner_read | fs::perms::owner_write);
            if (uid_ != 0) {
                EXPECT_EQ(::chown(to.c_str(), uid_, gid_), 0);
            }
        }
        ask("ALTER SYSTEM SET ssl_cert_file = 'tls.crt'");
        ask("ALTER SYSTEM SET ssl_key_file = 'tls.key'");
        ask(std::string("ALTER SYSTEM SET ssl = ") + (certificate.empty() ? "off" : "on"));
        ask("SELECT pg_reload_conf()");
        const std::string wanted = certificate.empty() ? "off" : "on";
        EXPECT_TRUE(soon([&] { return ask("SHOW ssl") == wanted; })) << log();
    }

    // The first column of the last row that the statements give; "" without one.
    std::string ask(const std::string& sql, const std::string& database = "postgres") const {
        PGconn* connection = PQconnectdb(url(database).c_str());
        PQsetNoticeProcessor(
            connection, [](void*, const char*) {}, nullptr);
        PGresult* result = PQexec(connection, sql.c_str());
        const ExecStatusType status = PQresultStatus(result);
        EXPECT_TRUE(status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK)
            << sql << ": " << PQerrorMessage(connection);
        const bool row = PQntuples(result) > 0;
        std::string value = row ? PQgetvalue(result, PQntuples(result) - 1, 0) : "";
        PQclear(result);
        PQfinish(connection);
        return value;
    }
    std::string log() const {
        std::ifstream file(folder_ + "/log");
        return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    }

  private:
    static bool soon(const std::function<bool()>& condition) {
        const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(90);
        while (!condition()) {
            if (std::chrono::steady_clock::now() > until) return false;
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
        return true;
    }
    static std::string find_programs() {
        glob_t found = {};
        std::string folder;
        if (::glob("/usr/lib/postgresql/*/bin", 0, nullptr, &found) == 0) {
            folder = found.gl_pathv[found.gl_pathc - 1];
        }
        ::globfree(&found);
        const bool there = !folder.empty() && std::filesystem::exists(folder + "/initdb");
        return there ? folder : "";
    }
    static std::string free_port() {
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
    static std::string make_folder() {
        std::string path = std::filesystem::temp_directory_path().string() + "/helix-pg-XXXXXX";
        EXPECT_NE(::mkdtemp(path.data()), nullptr);
        return path;
    }
    // As the user that may; it ends when the thread does that called this.
    pid_t spawn(std::vector<std::string> words) const {
        std::vector<char*> argv;
        for (std::string& word : words) argv.push_back(word.data());
        argv.push_back(nullptr);
        const std::string out = folder_ + "/log";
        const pid_t pid = ::fork();
        if (pid != 0) return pid;
        if (uid_ != 0 &&
            (::setgroups(0, nullptr) != 0 || ::setgid(gid_) != 0 || ::setuid(uid_) != 0)) {
            ::_exit(126);
        }
        ::prctl(PR_SET_PDEATHSIG, SIGQUIT);
        const int fd = ::open(out.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
        ::dup2(fd, STDOUT_FILENO);
        ::dup2(fd, STDERR_FILENO);
        if (::chdir(folder_.c_str()) != 0) ::_exit(126);
        ::execv(argv[0], argv.data());
        ::_exit(127);
    }
    static int wait_for(pid_t pid) {
        int status = 0;
        ::waitpid(pid, &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }

    const std::string programs_;  // the folder of its programs; "" = there is none
    const std::string folder_ = make_folder();
    const std::string port_;
    uid_t uid_ = 0;
    gid_t gid_ = 0;
    pid_t pid_ = 0;
};

}  // namespace helix::test_support

// Leaves a test out where there is no server; the reason is printed.
#define HELIX_NEEDS_POSTGRES()                                         \
    if (!helix::test_support::PostgresServer::shared().there()) {      \
        GTEST_SKIP() << "no PostgreSQL here (apt install postgresql)"; \
    }
