// An encoder on two workers, as processes: the embeddings of one process, bit for bit, also when a
// worker dies and another one takes its place; and nothing else is answered. Likewise the scores of
// cross-encoders.

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "cluster/process.h"
#include "model/synth.h"

namespace helix::cluster::encoder_process_test {
namespace {

// What is behind an answer's headers.
std::string body_of(const std::string& answer) {
    const std::size_t end = answer.find("\r\n\r\n");
    return end == std::string::npos ? "" : answer.substr(end + 4);
}

class EncoderProcess : public ::testing::Test {
  protected:
    void make(const std::string& shape) {
        model::SynthOptions synth;
        synth.shape = shape;
        synth.quant = "bf16";
        synth.path = folder_.file("encoder.gguf");
        ASSERT_TRUE(model::synth_model(synth).ok());
    }
    // more: of the command line.
    std::unique_ptr<Process> serve(int port, const std::string& log,
                                   const std::vector<std::string>& more) const {
        std::vector<std::string> words{"serve", "--model", folder_.file("encoder.gguf"), "--listen",
                                       "127.0.0.1:" + std::to_string(port)};
        words.insert(words.end(), more.begin(), more.end());
        return std::make_unique<Process>(words, folder_.file(log));
    }
    // Its memory holds a part of the layers.
    std::unique_ptr<Process> worker(const std::string& name,
                                    const std::string& memory = "9MB") const {
        return std::make_unique<Process>(
            std::vector<std::string>{"worker", "--join", "127.0.0.1:" + std::to_string(port_),
                                     "--name", name, "--host-id", name, "--memory", memory,
                                     "--threads", "1", "--cache", "none"},
            folder_.file(name + ".log"));
    }
    static bool ready(int port) {
        return eventually(
            [&] { return http(port, "GET", "/health/ready").starts_with("HTTP/1.1 200"); }, 120);
    }
    // The embeddings of three texts as they stand in the answer, the last of about `words` words.
    static std::string embeddings(int port, int words) {
        std::string text = "once";
        for (int i = 0; i < words; ++i) text += " upon a time";
        return body_of(http(port, "POST", "/v1/embeddings",
                            R"({"model": "default", "encoding_format": "base64",
                                "input": ["water", "a small machine", ")" +
                                text + "\"]}"));
    }

    // The scores of three documents, and of none.
    static std::string scores(int port) {
        return body_of(http(port, "POST", "/v1/score",
                            R"({"model": "default", "text_1": "a small machine",
                                "text_2": ["water", "a machine of water", "once upon a time", ""]})"));
    }
    static void expect_refused(int port, const std::string& path, const std::string& body,
                               const std::string& why) {
        const std::string refused = http(port, "POST", path, body);
        EXPECT_TRUE(refused.starts_with("HTTP/1.1 400")) << refused;
        EXPECT_NE(refused.find(why), std::string::npos) << refused;
    }

    Folder folder_;
    int port_ = free_port();
};

TEST_F(EncoderProcess, TwoWorkersMakeTheEmbeddingsOfOneProcessAlsoWhenOneDies) {
    make("bge");
    const int alone_port = free_port();
    std::string expected;
    {
        const auto alone = serve(alone_port, "alone.log", {"--threads", "1"});
        ASSERT_TRUE(ready(alone_port)) << alone->log();
        expected = embeddings(alone_port, 60);
        ASSERT_NE(expected.find("\"embedding\""), std::string::npos) << expected;
        ASSERT_NE(expected.find("\"prompt_tokens\""), std::string::npos) << expected;
        EXPECT_NE(alone->log().find("it is an encoder"), std::string::npos) << alone->log();
    }
    const auto coordinator = serve(port_, "serve.log", {"--no-worker", "--min-workers", "2"});
    const auto a = worker("a");
    auto b = worker("b");
    ASSERT_TRUE(ready(port_)) << coordinator->log();
    const std::string cluster = http(port_, "GET", "/helix/cluster");
    EXPECT_EQ(embeddings(port_, 60), expected) << cluster;

    for (const auto& [path, body] :
         {std::pair("/v1/chat/completions",
                    R"({"model": "default", "messages": [{"role": "user", "content": "Hi"}]})"),
          {"/v1/completions", R"({"model": "default", "prompt": "Hi"})"}}) {
        expect_refused(port_, path, body, "is an encoder: it makes embeddings (/v1/embeddings)");
    }
    expect_refused(port_, "/v1/rerank",
                   R"({"model": "default", "query": "Hi", "documents": ["Ho"]})",
                   "an encoder without the head of a cross-encoder");
    // [CLS] and [SEP] are around every text, and count.
    const std::string tokens =
        body_of(http(port_, "POST", "/tokenize", R"({"model": "default", "prompt": "water"})"));
    EXPECT_NE(tokens.find("\"tokens\":[2,"), std::string::npos) << tokens;
    EXPECT_NE(tokens.find(",3]"), std::string::npos) << tokens;
    const std::string too_long = embeddings(port_, 400);
    EXPECT_NE(too_long.find("maximum context length is 512 tokens"), std::string::npos) << too_long;

    // One that has half of the layers dies, and another comes.
    b->stop(SIGKILL);
    const auto c = worker("c");
    const bool same = eventually([&] { return embeddings(port_, 60) == expected; }, 60);
    EXPECT_TRUE(same) << coordinator->log() << a->log() << c->log();
}

TEST_F(EncoderProcess, TwoWorkersMakeTheEmbeddingsOfAnEmbeddingGemma) {
    make("embeddinggemma");
    std::string expected;
    {
        const int port = free_port();
        const auto alone = serve(port, "alone.log", {"--threads", "1"});
        ASSERT_TRUE(ready(port)) << alone->log();
        expected = embeddings(port, 20);
        ASSERT_NE(expected.find("\"embedding\""), std::string::npos) << expected;
    }
    const auto coordinator = serve(port_, "serve.log", {"--no-worker", "--min-workers", "2"});
    const auto a = worker("a", "13MB");
    const auto b = worker("b", "13MB");
    ASSERT_TRUE(ready(port_)) << coordinator->log();
    EXPECT_EQ(embeddings(port_, 20), expected) << http(port_, "GET", "/helix/cluster");
    expect_refused(port_, "/v1/completions", R"({"model": "default", "prompt": "Hi"})",
                   "is an encoder: it makes embeddings (/v1/embeddings)");
    // <bos> and <eos> are around every text.
    const std::string tokens =
        body_of(http(port_, "POST", "/tokenize", R"({"model": "default", "prompt": "water"})"));
    EXPECT_NE(tokens.find("\"tokens\":[2,"), std::string::npos) << tokens;
    EXPECT_NE(tokens.find(",1]"), std::string::npos) << tokens;
}

TEST_F(EncoderProcess, TwoWorkersMakeTheScoresOfOneProcess) {
    for (const char* shape : {"minilm-reranker", "bge-reranker"}) {
        SCOPED_TRACE(shape);
        make(shape);
        std::string expected;
        {
            const int port = free_port();
            const auto alone = serve(port, "alone.log", {"--threads", "1"});
            ASSERT_TRUE(ready(port)) << alone->log();
            expected = scores(port);
            ASSERT_NE(expected.find("\"index\":3"), std::string::npos) << expected;
            EXPECT_NE(alone->log().find("it is a cross-encoder"), std::string::npos)
                << alone->log();
        }
        port_ = free_port();
        const auto coordinator = serve(port_, "serve.log", {"--no-worker", "--min-workers", "2"});
        const auto a = worker("a");
        const auto b = worker("b");
        ASSERT_TRUE(ready(port_)) << coordinator->log();
        // The time at which it was made is an answer's own.
        const auto data = [](const std::string& body) {
            return body.substr(body.find("\"data\""));
        };
        EXPECT_EQ(data(scores(port_)), data(expected)) << http(port_, "GET", "/helix/cluster");
        expect_refused(port_, "/v1/embeddings", R"({"model": "default", "input": "Hi"})",
                       "makes no embeddings");
        expect_refused(port_, "/v1/completions", R"({"model": "default", "prompt": "Hi"})",
                       "is a cross-encoder: it ranks documents (/v1/rerank)");
    }
}

}  // namespace
}  // namespace helix::cluster::encoder_process_test
