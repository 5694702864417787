// helix pair

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>

#include "base/escape.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/server_client.h"

namespace helix::cli {
namespace {

constexpr const char* kPath = "/helix/pairing";
constexpr std::chrono::milliseconds kLookEvery{500};

// What the server says of it.
struct Pairing {
    std::string state;
    std::string code;
    std::string let_in;
    bool expired = false;
    std::int64_t seconds_left = 0;
    std::int64_t wrong_tries = 0;
};

// What the server says goes to a terminal.
Pairing read_pairing(const nlohmann::json& body) {
    const auto text = [&](const char* field) {
        const auto found = body.find(field);
        return found != body.end() && found->is_string() ? base::escaped(found->get<std::string>())
                                                         : std::string();
    };
    const auto number = [&](const char* field) {
        const auto found = body.find(field);
        return found != body.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
    };
    Pairing out;
    out.state = text("state");
    out.code = text("code");
    out.let_in = text("let_in");
    const auto expired = body.find("expired");
    out.expired = expired != body.end() && expired->is_boolean() && expired->get<bool>();
    out.seconds_left = number("seconds_left");
    out.wrong_tries = number("wrong_tries");
    return out;
}

// What is to be typed on the other machine.
std::string join_commands(ServerClient& server) {
    std::string out;
    const auto joining = server.ask("GET", "/helix/joining");
    if (joining.ok() && joining->contains("addresses") && (*joining)["addresses"].is_array()) {
        for (const auto& address : (*joining)["addresses"]) {
            if (!address.is_string()) continue;
            out += fmt::format("  helix worker --join {} --pair\n",
                               base::escaped(address.get<std::string>()));
        }
    }
    return out.empty() ? "  helix worker --join HOST:PORT --pair\n" : out;
}

// Says what is new since the last look.
void tell(const Pairing& before, const Pairing& now) {
    if (now.wrong_tries > before.wrong_tries) {
        std::printf("A wrong code was tried.%s\n",
                    now.state != "paused" ? ""
                                          : fmt::format(" It was the last try: that code is void, "
                                                        "a new one comes in {} s.",
                                                        now.seconds_left)
                                                .c_str());
    } else if (now.state == "paused" && before.state != "paused") {
        std::printf("Too many wrong codes were tried: a code comes in %lld s.\n",
                    static_cast<long long>(now.seconds_left));
    }
    if (!now.code.empty() && now.code != before.code) {
        std::printf("The %scode is  %s  for one machine, for %lld minutes.\n",
                    before.state.empty() ? "" : "new ", now.code.c_str(),
                    static_cast<long long>((now.seconds_left + 59) / 60));
    }
    std::fflush(stdout);
}

class Waiting {
  public:
    // Returns false when the user has had enough.
    bool wait() {
        std::unique_lock lock(mutex_);
        return !changed_.wait_for(lock, kLookEvery, [this] { return over_; });
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool over_ = false;
    Interrupt interrupt_{[this] {
        const std::lock_guard lock(mutex_);
        over_ = true;
        changed_.notify_all();
    }};
};

base::Status pair(const ServerArguments& a) {
    block_interrupts();
    Waiting waiting;
    TRY(ServerClient server, ServerClient::connect(a));
    TRY(const nlohmann::json begun, server.ask("POST", kPath));
    Pairing last = read_pairing(begun);
    tell({}, last);
    std::printf("\nOn the other machine:\n\n%s\n", join_commands(server).c_str());
    std::fflush(stdout);
    while (last.state != "off") {
        if (!waiting.wait()) {
            TRY_VOID(server.ask("DELETE", kPath));
            std::printf("Pairing is ended: the code is void.\n");
            return base::Ok{};
        }
        TRY(const nlohmann::json body, server.ask("GET", kPath));
        const Pairing now = read_pairing(body);
        tell(last, now);
        last = now;
    }
    if (last.let_in.empty()) {
        return base::invalid(last.expired ? "the code is void: no machine came in time"
                                          : "pairing was ended at the coordinator");
    }
    std::printf("%s knows the code and may join, from now on without one.\n", last.let_in.c_str());
    return base::Ok{};
}

}  // namespace

void add_pair(App& app) {
    CLI::App* command = app.parser.add_subcommand(
        "pair", "Lets one machine join by a code that is typed there once");
    auto arguments = std::make_shared<ServerArguments>();
    add_server_options(*command, *arguments);
    command->footer(
        "Examples:\n"
        "  helix pair                                       at the coordinator\n"
        "  helix worker --join 192.0.2.7:8080 --pair        on the other machine\n"
        "  helix pair --server http://hall:8080 --admin-key-file admin.key");
    command->callback([&app, arguments] { app.action = [=] { return pair(*arguments); }; });
}

}  // namespace helix::cli
