// helix node list|drain|undrain|remove

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/escape.h"
#include "cli/access_option.h"
#include "cli/command.h"
#include "net/http_client.h"
#include "spec/bounded_json.h"

namespace helix::cli {
namespace {

struct NodeArguments {
    std::string server = "http://127.0.0.1:8080";
    CallerKeys keys;
    std::string key;  // that is sent
    std::string name;
    bool json = false;
    bool no_wait = false;
};

constexpr std::chrono::milliseconds kAskEvery{500};
constexpr std::chrono::seconds kAnswerWithin{10};

// As a part of a path.
std::string encoded(const std::string& name) {
    std::string out;
    for (const char c : name) {
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                           (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' || c == '~';
        out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
    return out;
}

// What the server says goes to a terminal.
std::string text_of(const nlohmann::json& node, const char* field) {
    const auto found = node.find(field);
    return found != node.end() && found->is_string() ? base::escaped(found->get<std::string>())
                                                     : std::string();
}

class Server {
  public:
    static base::Result<Server> connect(NodeArguments a) {
        TRY(a.key, key_to_send(a.keys, AccessEnvironment::read()));
        TRY(net::HttpTarget target, net::parse_http_url(a.server));
        if (target.prefix.ends_with("/v1")) target.prefix.resize(target.prefix.size() - 3);
        TRY(auto client, net::HttpClient::create(std::move(target)));
        return Server(std::move(a), std::move(client));
    }

    base::Result<nlohmann::json> ask(const std::string& method, const std::string& path) {
        net::HttpCall call;
        call.method = method;
        call.path = path;
        call.limit = kAnswerWithin;
        if (method == "POST") call.body = "{}";  // names its type
        if (!a_.key.empty()) call.headers.emplace_back("authorization", "Bearer " + a_.key);
        const auto answer = net::http_call(*client_, std::move(call));
        if (!answer.ok()) {
            return base::Error{answer.error().code,
                               fmt::format("{}: {}; is \"helix serve\" running there?", a_.server,
                                           answer.error().message)};
        }
        nlohmann::json body = spec::bounded_json_or_discarded(answer->body);
        if (answer->status / 100 == 2 && body.is_object()) return body;
        std::string message = fmt::format("answered with {}", answer->status);
        if (body.is_object() && body.contains("error") && body["error"].is_object()) {
            message = body["error"].value("message", message);
        }
        if (answer->status == 401) {
            message += " Give a key with --admin-key-file or --api-key.";
        }
        return base::invalid(fmt::format("{}: {}", a_.server, base::escaped(message)));
    }

    base::Result<nlohmann::json> nodes() {
        TRY(nlohmann::json body, ask("GET", "/helix/nodes"));
        if (!body.contains("data") || !body["data"].is_array()) {
            return base::invalid(a_.server + ": GET /helix/nodes is not what helix answers");
        }
        return body;
    }

    // Null when it is not there (any more).
    base::Result<nlohmann::json> node(const std::string& name) {
        TRY(const nlohmann::json body, nodes());
        for (const nlohmann::json& node : body["data"]) {
            if (node.is_object() && node.value("name", "") == name) return node;
        }
        return nlohmann::json();
    }

  private:
    Server(NodeArguments a, std::unique_ptr<net::HttpClient> client)
        : a_(std::move(a)), client_(std::move(client)) {}

    NodeArguments a_;
    std::unique_ptr<net::HttpClient> client_;
};

std::string layers_text(const nlohmann::json& node) {
    const nlohmann::json layers = node.value("layers", nlohmann::json());
    if (!layers.is_array() || layers.size() != 2) return "-";
    return fmt::format("{}-{}", layers[0].get<int>(), layers[1].get<int>());
}

base::Status list_nodes(const NodeArguments& a) {
    TRY(Server server, Server::connect(a));
    TRY(const nlohmann::json body, server.nodes());
    if (a.json) {
        std::printf("%s\n", body.dump().c_str());
        return base::Ok{};
    }
    std::printf("%-20s %-10s %-8s %-9s %8s  %s\n", "NAME", "STATE", "ROLE", "LAYERS", "REQUESTS",
                "KV USED");
    for (const nlohmann::json& node : body["data"]) {
        const auto pages = node.value("kv_pages", std::int64_t{0});
        const auto used = node.value("kv_pages_used", std::int64_t{0});
        std::string note;
        if (const double slow = node.value("slowdown", 1.0); slow > 1) {
            note = fmt::format("  slow: takes {:.1f} times its usual time", slow);
        }
        std::printf("%-20s %-10s %-8s %-9s %8lld  %lld %%%s\n", text_of(node, "name").c_str(),
                    text_of(node, "state").c_str(), text_of(node, "role").c_str(),
                    layers_text(node).c_str(),
                    static_cast<long long>(node.value("requests", std::int64_t{0})),
                    static_cast<long long>(pages > 0 ? used * 100 / pages : 0), note.c_str());
    }
    for (const nlohmann::json& away : body.value("drained_away", nlohmann::json::array())) {
        const bool remove = away.value("remove", false);
        std::printf("%-20s %-10s is not here, and %s when it comes back\n",
                    text_of(away, "name").c_str(), remove ? "removing" : "drained",
                    remove ? "leaves again" : "stays drained");
    }
    return base::Ok{};
}

// Until the worker holds nothing or, with remove, has left. Says what changes.
base::Status follow(Server& server, const NodeArguments& a, bool remove, nlohmann::json& last) {
    std::string said;
    while (true) {
        std::this_thread::sleep_for(kAskEvery);
        TRY(nlohmann::json node, server.node(a.name));
        if (node.is_null()) {  // it has left, or died: either way it holds nothing
            last["state"] = "gone";
            if (!a.json) std::printf("%s is gone\n", a.name.c_str());
            return base::Ok{};
        }
        last = node;
        const std::string state = node.value("state", "");
        if (state == "drained" && !remove) {
            if (!a.json) std::printf("%s is drained: it holds nothing\n", a.name.c_str());
            return base::Ok{};
        }
        if (state != "draining" && state != "removing" && state != "drained" &&
            state != "removed") {
            const std::string why = text_of(node, "drain_refused");
            return base::invalid(why.empty() ? fmt::format("{} is used again", a.name)
                                             : fmt::format("{} is not drained, it goes on as it "
                                                           "was: without it {}",
                                                           a.name, why));
        }
        const auto requests = node.value("requests", std::int64_t{0});
        const std::string waits = text_of(node, "drain_waits");
        std::string text = state == "removed" ? a.name + " is empty and leaves"
                           : !waits.empty()   ? a.name + " waits: " + waits
                           : requests > 0
                               ? fmt::format("{} request{} on {} move{} away or finish{}", requests,
                                             requests == 1 ? "" : "s", a.name,
                                             requests == 1 ? "s" : "", requests == 1 ? "es" : "")
                               : "no request on " + a.name + "; the others take its layers over";
        if (!a.json && text != said) {
            std::printf("%s\n", text.c_str());
            std::fflush(stdout);
        }
        said = std::move(text);
    }
}

base::Status change_node(const NodeArguments& a, const std::string& action) {
    TRY(Server server, Server::connect(a));
    TRY(nlohmann::json last, server.ask("POST", "/helix/nodes/" + encoded(a.name) + "/" + action));
    if (action != "undrain" && !a.no_wait) {
        TRY_VOID(follow(server, a, action == "remove", last));
    } else if (!a.json) {
        std::printf("%s: %s was asked for\n", a.name.c_str(), action.c_str());
    }
    if (a.json) std::printf("%s\n", last.dump().c_str());
    return base::Ok{};
}

void add_options(CLI::App* command, NodeArguments& a) {
    command->add_option("--server", a.server, "of the coordinator's API")->capture_default_str();
    add_caller_keys(*command, a.keys);
    command->add_flag("--json", a.json, "one JSON object instead of lines for people");
}

void add_change(App& app, CLI::App* node, const std::shared_ptr<NodeArguments>& a,
                const std::string& action, const std::string& help, const std::string& examples) {
    CLI::App* command = node->add_subcommand(action, help);
    command->add_option("NAME", a->name, "the worker's, as \"helix node list\" shows it")
        ->required();
    add_options(command, *a);
    if (action != "undrain") {
        command->add_flag("--no-wait", a->no_wait, "do not wait until it holds nothing");
    }
    command->footer("Examples:\n" + examples);
    command->callback([&app, a, action] { app.action = [=] { return change_node(*a, action); }; });
}

}  // namespace

void add_node(App& app) {
    CLI::App* node = app.parser.add_subcommand(
        "node", "The workers of a cluster that serves: look, empty, remove");
    node->require_subcommand(1);
    node->footer(
        "Examples:\n"
        "  helix node list\n"
        "  helix node drain den        empties it; its requests go on elsewhere\n"
        "  helix node undrain den\n"
        "  helix node remove den --server http://hall:8080 --admin-key-file admin.key\n"
        "\n'helix node COMMAND --help' says more.");
    auto a = std::make_shared<NodeArguments>();
    CLI::App* list = node->add_subcommand("list", "The workers, their layers and requests");
    add_options(list, *a);
    list->footer(
        "Examples:\n  helix node list\n  helix node list --server http://hall:8080 --json");
    list->callback([&app, a] { app.action = [=] { return list_nodes(*a); }; });
    add_change(
        app, node, a, "drain",
        "Nothing new goes there, its requests move away, its layers go to others",
        "  helix node drain den\n  helix node drain den --no-wait --server http://hall:8080 \\\n"
        "             --admin-key-file admin.key");
    add_change(app, node, a, "undrain",
               "Uses a drained worker again, also one that is not here now",
               "  helix node undrain den");
    add_change(app, node, a, "remove", "Drains a worker and ends it", "  helix node remove den");
}

}  // namespace helix::cli
