// helix run MODEL [QUESTION]

#include <editline/readline.h>
#include <signal.h>
#include <unistd.h>

#include <charconv>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/escape.h"
#include "base/hex.h"
#include "cli/chat_client.h"
#include "cli/command.h"
#include "cli/local_server.h"
#include "cli/progress.h"
#include "cli/pull_line.h"
#include "hub/helix_server.h"
#include "model/gguf_image.h"
#include "model/weight_source.h"
#include "node/tensor_cache.h"
#include "view/draw/terminal.h"

namespace helix::cli {
namespace {

struct ChatArguments {
    std::string model;
    std::vector<std::string> question;
    ServerArguments server{"", {}};
    ChatSettings settings;
    std::vector<std::string> serve;  // options of the server that is started
    bool json = false;
};

constexpr const char* kUsualServer = "http://127.0.0.1:8080";

// Ctrl-C, and how often it came since it was last asked.
volatile sig_atomic_t g_interrupts = 0;
void count_interrupt(int /*signal*/) {
    g_interrupts = g_interrupts + 1;
}
bool interrupted() {
    const bool was = g_interrupts > 0;
    g_interrupts = 0;
    return was;
}

// From now on Ctrl-C ends what is waited for, not the program.
void hear_interrupts() {
    struct sigaction action {};
    action.sa_handler = count_interrupt;  // without SA_RESTART: reading a line ends, too
    ::sigaction(SIGINT, &action, nullptr);
    ::sigaction(SIGTERM, &action, nullptr);
}

// What a model says to a terminal can be read and does nothing else; a file gets it as it is.
class Printer {
  public:
    Printer() : terminal_(::isatty(STDOUT_FILENO) == 1) {}

    void reasoning(std::string_view text) {
        if (!terminal_) return;
        if (!reasons_) std::fputs("\x1b[2m", stdout);
        reasons_ = true;
        put(text);
    }
    void content(std::string_view text) {
        if (reasons_) std::fputs("\x1b[0m\n", stdout);
        reasons_ = false;
        put(text);
    }
    void end() {
        if (reasons_) std::fputs("\x1b[0m", stdout);
        reasons_ = false;
        std::fputs("\n", stdout);
        std::fflush(stdout);
    }

  private:
    void put(std::string_view text) {
        std::fputs(terminal_ ? base::escaped_lines(text).c_str() : std::string(text).c_str(),
                   stdout);
        std::fflush(stdout);
    }
    bool terminal_;
    bool reasons_ = false;
};

std::string figures(const ChatAnswer& answer) {
    if (answer.answer_tokens == 0) return "stopped";
    std::string out =
        fmt::format("{} {}", answer.answer_tokens, answer.answer_tokens == 1 ? "token" : "tokens");
    if (answer.tokens_per_s) out += fmt::format(", {:.1f} tokens/s", *answer.tokens_per_s);
    out += fmt::format(", the first after {:.0f} ms", 1000 * answer.ttft_s);
    if (answer.finish_reason == "length") out += "; cut off at the limit of tokens";
    return out;
}

nlohmann::json answer_json(const ChatAnswer& answer) {
    return {{"answer", answer.content},
            {"reasoning", answer.reasoning},
            {"finish_reason", answer.finish_reason},
            {"prompt_tokens", answer.prompt_tokens},
            {"answer_tokens", answer.answer_tokens},
            {"ttft_s", answer.ttft_s},
            {"tokens_per_s",
             answer.tokens_per_s ? nlohmann::json(*answer.tokens_per_s) : nlohmann::json()}};
}

base::Status ask_once(Conversation& conversation, const std::string& question, bool json) {
    Printer printer;
    ChatEvents events;
    events.stops = interrupted;
    if (!json) {
        events.on_content = [&](std::string_view text) { printer.content(text); };
        events.on_reasoning = [&](std::string_view text) { printer.reasoning(text); };
    }
    const auto answer = conversation.ask(question, events);
    if (!json) printer.end();
    if (!answer.ok()) return answer.error();
    if (json) {
        std::printf("%s\n", answer_json(*answer)
                                .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
                                .c_str());
    }
    return base::Ok{};
}

constexpr const char* kHelp =
    "/system TEXT     what the model is told before everything else; without text: nothing\n"
    "/set NAME VALUE  temperature, top_p, seed or max_tokens; without a value: the server's\n"
    "/clear           begins a new conversation\n"
    "/exit            ends it, as Ctrl-D does\n"
    "\"\"\"              begins and ends a question of several lines\n"
    "Ctrl-C           stops an answer\n";

// An optional number of the settings from text; false: it is none.
template <typename Number>
bool read_number(std::string_view text, std::optional<Number>& out) {
    if (text.empty()) {
        out.reset();
        return true;
    }
    Number value{};
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
    if (read.ec != std::errc() || read.ptr != text.data() + text.size()) return false;
    out = value;
    return true;
}

std::string set_setting(ChatSettings& settings, std::string_view name, std::string_view value) {
    bool good = false;
    std::optional<std::int64_t> tokens;
    if (name == "temperature") {
        good = read_number(value, settings.temperature);
    } else if (name == "top_p") {
        good = read_number(value, settings.top_p);
    } else if (name == "seed") {
        good = read_number(value, settings.seed);
    } else if (name == "max_tokens") {
        good = read_number(value, tokens) && tokens.value_or(0) >= 0;
        if (good) settings.max_tokens = tokens.value_or(0);
    } else {
        return "there is none but temperature, top_p, seed and max_tokens";
    }
    if (!good) return fmt::format("{} is no number", base::escaped(value));
    return fmt::format("{}: {}", name, value.empty() ? "as the server has it" : value);
}

// A chat at a terminal.
class Chat {
  public:
    explicit Chat(Conversation& conversation) : conversation_(conversation) {}

    base::Status run() {
        std::setlocale(LC_CTYPE, "");  // a line may have any characters
        while (const auto line = next_question()) {
            if (line->starts_with('/')) {
                if (*line == "/exit" || *line == "/bye" || *line == "/quit") break;
                std::fputs((command(*line) + "\n").c_str(), stdout);
                continue;
            }
            answer(*line);
        }
        return base::Ok{};
    }

  private:
    static std::optional<std::string> read_line(const char* prompt) {
        char* const line = ::readline(prompt);
        if (line == nullptr) return {};
        std::string text = line;
        std::free(line);
        if (!text.empty()) ::add_history(text.c_str());
        return text;
    }
    // The next line that is not empty, or several between """; none at the end.
    static std::optional<std::string> next_question() {
        std::string text;
        while (text.empty()) {
            auto line = read_line(">>> ");
            if (!line) {
                std::fputs("\n", stdout);
                return {};
            }
            text = std::move(*line);
        }
        constexpr std::string_view kQuotes = "\"\"\"";
        if (!text.starts_with(kQuotes)) return text;
        text.erase(0, kQuotes.size());
        while (!text.ends_with(kQuotes)) {
            const auto more = read_line("... ");
            if (!more) return {};
            text += "\n" + *more;
        }
        text.erase(text.size() - kQuotes.size());
        return text;
    }

    std::string command(std::string_view line) {
        const auto word = [&line] {
            const std::size_t end = std::min(line.find(' '), line.size());
            const std::string_view first = line.substr(0, end);
            line.remove_prefix(std::min(line.find_first_not_of(' ', end), line.size()));
            return first;
        };
        const std::string_view name = word();
        if (name == "/help" || name == "/?")
            return std::string(kHelp).substr(0, std::string(kHelp).size() - 1);
        if (name == "/clear") {
            conversation_.clear();
            return "A new conversation.";
        }
        if (name == "/system") {
            conversation_.settings().system = line;
            return line.empty() ? "No system prompt." : "The system prompt is set.";
        }
        if (name == "/set") {
            const std::string_view setting = word();
            return set_setting(conversation_.settings(), setting, line);
        }
        return base::escaped(name) + " is no command; /help lists them";
    }

    void answer(const std::string& question) {
        Printer printer;
        interrupted();  // what came before counts for nothing
        ChatEvents events;
        events.on_content = [&](std::string_view text) { printer.content(text); };
        events.on_reasoning = [&](std::string_view text) { printer.reasoning(text); };
        events.stops = interrupted;
        const auto answer = conversation_.ask(question, events);
        printer.end();
        if (!answer.ok()) {
            std::fprintf(stderr, "helix: %s\n", answer.error().message.c_str());
            return;
        }
        std::printf("%s\n\n",
                    view::styled(view::TextStyle::dim, "(" + figures(*answer) + ")").c_str());
    }

    Conversation& conversation_;
};

// Whether a server runs there that serves a model of this name.
bool is_served(const ServerArguments& at, const std::string& model) {
    auto server = ServerClient::connect(at);
    if (!server.ok()) return false;
    const auto models = server->ask("GET", "/v1/models");
    if (!models.ok() || !models->contains("data") || !(*models)["data"].is_array()) return false;
    for (const nlohmann::json& one : (*models)["data"]) {
        if (one.is_object() && one.contains("id") && one["id"] == model) return true;
    }
    return false;
}

// The name by which a server that runs there serves the model of this file or folder; "": it does
// not. Only a file as long as what it serves is read, whose content is then the same or not.
std::string name_served(const ServerArguments& at, const std::string& path) {
    auto server = ServerClient::connect(at);
    if (!server.ok()) return "";
    const auto answer = server->ask("GET", "/helix/models");
    if (!answer.ok()) return "";
    const auto offers = hub::read_offers(answer->dump(), at.url);
    if (!offers.ok() || offers->empty()) return "";
    const auto weights = model::open_weights(path, {});
    if (!weights.ok()) return "";  // who is to serve it says why
    const std::uint64_t bytes = model::GgufImage(*weights).bytes();
    const model::DigestCache digests = node::digests_in(node::default_cache_dir());
    for (const hub::OfferedModel& offer : *offers) {
        const auto hash = base::hash_from_hex(offer.hash);
        if (offer.bytes == bytes && hash && digests.check(**weights, *hash).ok()) {
            return offer.name;
        }
    }
    return "";
}

// With --server no model need be named: words that are no model of it begin the question.
void tell_model_from_question(ChatArguments& a) {
    const bool has_spaces = a.model.find_first_of(" \t\n") != std::string::npos;
    if (!has_spaces || is_served(a.server, a.model)) return;
    a.question.insert(a.question.begin(), std::move(a.model));
    a.model.clear();
}

std::string read_all(std::istream& in) {
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// The server that answers: a running one, or one that is started here.
base::Result<std::unique_ptr<LocalServer>> find_server(ChatArguments& a) {
    if (!a.server.url.empty()) tell_model_from_question(a);
    if (a.server.url.empty() && is_served({kUsualServer, {}}, a.model)) a.server.url = kUsualServer;
    if (!a.server.url.empty()) {
        if (!a.serve.empty()) {
            return base::invalid("options for a server are for one that is started; " +
                                 a.server.url + " runs already");
        }
        a.settings.model = a.model;
        return std::unique_ptr<LocalServer>();
    }
    if (a.model.empty()) return base::invalid("which MODEL? Or name a server with --server");
    const std::string name = a.model;
    TRY_VOID(resolve_model(a.model));
    if (a.serve.empty()) {
        a.settings.model = name_served({kUsualServer, {}}, a.model);
        if (!a.settings.model.empty()) {
            a.server.url = kUsualServer;
            return std::unique_ptr<LocalServer>();
        }
    }
    std::vector<std::string> arguments{a.model};
    if (name != a.model) arguments.insert(arguments.end(), {"--name", name});
    arguments.insert(arguments.end(), a.serve.begin(), a.serve.end());
    ProgressLine line("starting helix serve with " + name);
    std::uint64_t looks = 0;
    TRY(auto server, LocalServer::start(arguments, [&] {
            line.update(++looks, 0, [] { return std::string(); });
            return interrupted();
        }));
    a.server.url = server->url();
    return server;
}

base::Status run_model(ChatArguments a) {
    hear_interrupts();
    TRY(const auto server, find_server(a));
    Conversation conversation(a.server, a.settings);
    std::string question = fmt::format("{}", fmt::join(a.question, " "));
    const bool terminal = ::isatty(STDIN_FILENO) == 1;
    if (!terminal) {
        const std::string piped = read_all(std::cin);
        question += (question.empty() || piped.empty() ? "" : "\n\n") + piped;
        if (question.empty()) return base::invalid("there is no question: standard input is empty");
    }
    if (!question.empty()) return ask_once(conversation, question, a.json);
    if (a.json) return base::invalid("--json is for one question: helix run MODEL QUESTION --json");
    if (server != nullptr) {
        std::printf("The page of this server, while it runs: %s/\n", a.server.url.c_str());
    }
    std::printf("/help lists commands; Ctrl-D ends it.\n\n");
    Chat chat(conversation);
    return chat.run();
}

}  // namespace

void add_run(App& app) {
    CLI::App* run = app.parser.add_subcommand(
        "run", "Chats with a model in the terminal; starts what is needed");
    auto a = std::make_shared<ChatArguments>();
    run->add_option(
        "model", a->model,
        "a GGUF file, a folder, OWNER/REPO:TAG of a hub, which is pulled when it is not "
        "there, or the name of a model that a server at 127.0.0.1:8080 has; if one there serves "
        "the same file, it answers");
    run->add_option(
        "question", a->question,
        "answered once, with what comes from standard input behind it [a conversation]");
    run->add_option("--server", a->server.url,
                    "a server that runs, in place of one that is started");
    add_caller_keys(*run, a->server.keys);
    run->add_option("--system", a->settings.system,
                    "what the model is told before everything else");
    run->add_option("--temperature", a->settings.temperature, "0: always the likeliest token");
    run->add_option("--top-p", a->settings.top_p, "of the likeliest tokens with this probability");
    run->add_option("--seed", a->settings.seed, "equal seeds give equal answers");
    run->add_option("--max-tokens", a->settings.max_tokens, "of an answer");
    run->add_option("--serve", a->serve,
                    "an option for the server that is started, like --serve=--memory=4GB")
        ->allow_extra_args(false);
    run->add_flag("--json", a->json, "the answer to one question as a JSON object");
    run->footer(
        "Examples:\n"
        "  helix run Qwen/Qwen3-8B-GGUF:Q4_K_M\n"
        "  helix run llama.gguf \"Why is the sky blue?\"\n"
        "  helix run llama.gguf \"Sum this up:\" < report.txt\n"
        "  helix run llama.gguf --serve=--device=auto --serve=--context=8192\n"
        "  helix run --server http://hall:8080 --api-key KEY\n"
        "  helix run --server http://hall:8080 \"Why is the sky blue?\"");
    run->callback([&app, a] { app.action = [a] { return run_model(*a); }; });
}

}  // namespace helix::cli
