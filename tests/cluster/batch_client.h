#pragma once

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "../net/http_test_client.h"
#include "cluster/process.h"

namespace helix::cluster {

// A client that has batches run at a port of this machine.
class BatchClient {
  public:
    using Json = nlohmann::json;
    static constexpr int kBadLines = 2;

    explicit BatchClient(int port) : port_(port) {}

    // The answer's JSON; null while nobody answers, or it is none of 200.
    Json call(const std::string& method, const std::string& path, const std::string& body = "",
              const std::string& headers = "") const {
        net::TestClient client(static_cast<std::uint16_t>(port_));
        if (!client.connected()) return {};
        client.request(method, path, body, headers);
        const auto response = client.read_response();
        if (!response.complete || response.status != 200) return {};
        return Json::parse(response.body, nullptr, false);
    }
    std::string content(const Json& file) const {
        net::TestClient client(static_cast<std::uint16_t>(port_));
        client.request("GET", "/v1/files/" + file.get<std::string>() + "/content");
        return client.read_response().body;
    }
    bool serves() const {
        return eventually([&] { return call("GET", "/v1/files").is_object(); }, 120);
    }
    // Requests that are greedy or drawn, and some that fail. With a seed in them two batches say
    // the same; without, only one that is run twice.
    static std::string requests(int lines, bool seeded = false) {
        std::string text;
        for (int i = 0; i < lines; ++i) {
            Json body = {{"model", "default"},
                         {"prompt", "once " + std::to_string(i)},
                         {"max_tokens", 8 + i % 9},
                         {"temperature", i % 2},
                         {"ignore_eos", true}};
            if (i < kBadLines) body["temperature"] = "hot";
            if (seeded) body["seed"] = i;
            text += Json{{"custom_id", "request-" + std::to_string(i)},
                         {"method", "POST"},
                         {"url", "/v1/completions"},
                         {"body", body}}
                        .dump() +
                    "\n";
        }
        return text;
    }
    // The id of the file, as of the batch below; "" = it was not taken.
    std::string upload(const std::string& content) const {
        const std::string form =
            "--B\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n"
            "--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n" +
            content + "\r\n--B--\r\n";
        const Json file =
            call("POST", "/v1/files", form, "content-type: multipart/form-data; boundary=B\r\n");
        return file.is_object() ? file.value("id", "") : "";
    }
    std::string create(const std::string& file) const {
        const Json made = call("POST", "/v1/batches",
                               Json{{"input_file_id", file},
                                    {"endpoint", "/v1/completions"},
                                    {"completion_window", "24h"}}
                                   .dump());
        return made.is_object() ? made.value("id", "") : "";
    }
    Json batch(const std::string& id) const { return call("GET", "/v1/batches/" + id); }
    bool has_status(const std::string& id, const std::string& status, int seconds) const {
        return eventually(
            [&] {
                const Json now = batch(id);
                return now.is_object() && now["status"] == status;
            },
            seconds);
    }
    bool has_completed(const std::string& id, std::int64_t lines, int seconds) const {
        return eventually(
            [&] {
                const Json now = batch(id);
                return now.is_object() && now["request_counts"]["completed"] >= lines;
            },
            seconds);
    }
    // What a batch of requests(lines) that is completed has answered, by custom_id.
    std::map<std::string, std::string> answers(const std::string& id, int lines) const {
        std::map<std::string, std::string> answers;
        const Json done = batch(id);
        EXPECT_EQ(done["request_counts"]["completed"], lines - kBadLines);
        EXPECT_EQ(done["request_counts"]["failed"], kBadLines);
        add_answers(content(done["output_file_id"]), answers);
        EXPECT_EQ(answers.size(), static_cast<std::size_t>(lines - kBadLines));
        add_answers(content(done["error_file_id"]), answers);
        EXPECT_EQ(answers.size(), static_cast<std::size_t>(lines));
        return answers;
    }

  private:
    // A second answer for one custom_id is a failure.
    static void add_answers(const std::string& lines, std::map<std::string, std::string>& answers) {
        std::istringstream in(lines);
        std::string text;
        while (std::getline(in, text)) {
            const Json line = Json::parse(text, nullptr, false);
            ASSERT_TRUE(line.is_object()) << text;
            const Json& body = line["response"]["body"];
            const Json answer = body.contains("choices") ? body["choices"] : body["error"];
            EXPECT_TRUE(answers.emplace(line["custom_id"], answer.dump()).second) << text;
        }
    }

    const int port_;
};

}  // namespace helix::cluster
