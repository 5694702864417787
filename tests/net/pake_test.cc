#include "net/pake.h"

#include <gtest/gtest.h>

#include <string>

#include "base/hex.h"

// The test vectors are those of draft-irtf-cfrg-cpace for ristretto255 and SHA-512.

namespace helix::net::pake_test {
namespace {

std::string bytes(const std::string& digits) {
    return base::from_hex(digits, digits.size() / 2).value();
}
PakePoint point(const std::string& digits) {
    return point_from_hex(digits).value();
}
template <std::size_t kSize>
std::string hex(const std::array<std::uint8_t, kSize>& all) {
    return base::to_hex(std::string_view(reinterpret_cast<const char*>(all.data()), all.size()));
}

const std::string kSession = bytes("7e4b4791d6a8ef019b936c79fb7f2c57");
const PakeInputs kInputs = {"Password",
                            "\x0b"
                            "A_initiator\x0b"
                            "B_responder",
                            kSession};
const PakeScalar kScalarA =
    point("da3d23700a9e5699258aef94dc060dfda5ebb61f02a5ea77fad53f4ff0976d08");
const PakeScalar kScalarB =
    point("d2316b454718c35362d83d69df6320f38578ed5984651435e2949762d900b80d");
constexpr const char* kShareA = "d6bac480f2c386c394efc7c47adb9925dcd2630b64f240c50f8d0eec482b9157";
constexpr const char* kShareB = "3ea7e0b19560d7c0b0f5734f63b955286dfa8232b5ebe63324e2d9e7433f7258";
constexpr const char* kSecret = "80b69a8a76457ab6a4d7f887a4bf6b55a2f80ac19c333f917a05fc9887c8b40f";

TEST(Pake, TheGeneratorIsThatOfTheDraft) {
    EXPECT_EQ(base::to_hex(pake_generator_string(kInputs)),
              "11435061636552697374726574746f3235350850617373776f726464" + std::string(200, '0') +
                  "180b415f696e69746961746f720b425f726573706f6e646572107e4b4791d6a8ef019b936c79fb7f"
                  "2c57");
    EXPECT_EQ(hex(pake_generator(kInputs)),
              "222b6b195fe84b1652badb6f6a3ae3d24341e7306967f0b8115b40d5698c7e56");
}

TEST(Pake, SharesSecretAndKeyAreThoseOfTheDraft) {
    const PakePoint generator = pake_generator(kInputs);
    EXPECT_EQ(hex(pake_multiply(kScalarA, generator).value()), kShareA);
    EXPECT_EQ(hex(pake_multiply(kScalarB, generator).value()), kShareB);
    EXPECT_EQ(hex(pake_multiply(kScalarA, point(kShareB)).value()), kSecret);
    EXPECT_EQ(hex(pake_multiply(kScalarB, point(kShareA)).value()), kSecret);
    EXPECT_EQ(
        hex(pake_key(kSession, point(kSecret), {point(kShareA), "ADa"}, {point(kShareB), "ADb"})),
        "b69effbf61b51d56401c0f65601abe428de8206feaaf0e32198896dcae7b35cd"
        "2b38950a39dfd5d4a79164614c2984f7daa460b588c1e80c3fa2068af7900447");
}

TEST(Pake, ALongPasswordHasNoPaddingAndItsLengthHasTwoBytes) {
    PakeInputs inputs = kInputs;
    inputs.password = std::string(200, 'x');
    const std::string text = pake_generator_string(inputs);
    EXPECT_EQ(text.substr(18, 2), "\xc8\x01");
    EXPECT_EQ(text[220], '\0') << "an empty padding";
    EXPECT_EQ(text.size(), 18U + 202U + 1U + 25U + 17U);
}

TEST(Pake, NeitherTheNeutralElementNorWhatIsNoElementIsTaken) {
    EXPECT_FALSE(pake_multiply(kScalarA, PakePoint{}));
    PakePoint no_element = {};
    no_element.fill(0xff);
    EXPECT_FALSE(pake_multiply(kScalarA, no_element));
    const PakeParty party(PakeRole::responder, kInputs, "b");
    EXPECT_FALSE(party.accept({PakePoint{}, "a"}));
    EXPECT_FALSE(party.accept({no_element, "a"}));
}

struct Exchange {
    PakeParty a;
    PakeParty b;
    std::optional<PakeSession> of_a;
    std::optional<PakeSession> of_b;
};
Exchange exchange(const PakeInputs& a, const PakeInputs& b) {
    Exchange out = {PakeParty(PakeRole::initiator, a, "den"),
                    PakeParty(PakeRole::responder, b, "hall"),
                    {},
                    {}};
    out.of_a = out.a.accept(out.b.message());
    out.of_b = out.b.accept(out.a.message());
    return out;
}

TEST(Pake, TwoThatKnowThePasswordConfirmItAndReadWhatTheOtherSeals) {
    const Exchange all = exchange(kInputs, kInputs);
    EXPECT_TRUE(all.of_b->confirms(all.of_a->confirmation()));
    EXPECT_TRUE(all.of_a->confirms(all.of_b->confirmation()));
    EXPECT_EQ(all.of_b->open(all.of_a->seal("a key")), "a key");
    EXPECT_EQ(all.of_a->open(all.of_b->seal("")), "");
}

TEST(Pake, AConfirmationOrASealedTextSentBackProvesNothing) {
    const Exchange all = exchange(kInputs, kInputs);
    EXPECT_FALSE(all.of_a->confirms(all.of_a->confirmation()));
    EXPECT_FALSE(all.of_a->open(all.of_a->seal("a key")));
}

TEST(Pake, AnotherPasswordChannelOrSessionIsNoticed) {
    for (int which = 0; which < 3; ++which) {
        PakeInputs other = kInputs;
        (which == 0 ? other.password : which == 1 ? other.channel : other.session) += "x";
        const Exchange all = exchange(kInputs, other);
        EXPECT_FALSE(all.of_b->confirms(all.of_a->confirmation())) << which;
        EXPECT_FALSE(all.of_a->confirms(all.of_b->confirmation())) << which;
        EXPECT_FALSE(all.of_b->open(all.of_a->seal("a key"))) << which;
    }
}

TEST(Pake, WhoTakesTheOthersNameIsNoticed) {
    const PakeParty a(PakeRole::initiator, kInputs, "den");
    const PakeParty b(PakeRole::responder, kInputs, "hall");
    PakeMessage renamed = b.message();
    renamed.about = "attic";
    const auto of_a = a.accept(renamed);
    const auto of_b = b.accept(a.message());
    EXPECT_FALSE(of_b->confirms(of_a->confirmation()));
    EXPECT_FALSE(of_a->confirms(of_b->confirmation()));
}

TEST(Pake, AManInTheMiddleWithSharesOfHisOwnConfirmsNothing) {
    const PakeParty a(PakeRole::initiator, kInputs, "den");
    const PakeParty b(PakeRole::responder, kInputs, "hall");
    PakeInputs guess = kInputs;
    guess.password = "Passwort";
    const PakeParty to_a(PakeRole::responder, guess, "hall");
    const PakeParty to_b(PakeRole::initiator, guess, "den");
    const auto of_a = a.accept(to_a.message());
    const auto of_b = b.accept(to_b.message());
    EXPECT_FALSE(of_b->confirms(of_a->confirmation())) << "passed on";
    EXPECT_FALSE(of_b->confirms(to_b.accept(b.message())->confirmation()));
    EXPECT_FALSE(of_a->confirms(to_a.accept(a.message())->confirmation()));
}

TEST(Pake, AReplayedMessageMeetsAnotherKey) {
    const Exchange first = exchange(kInputs, kInputs);
    const PakeParty again(PakeRole::responder, kInputs, "hall");
    const auto of_b = again.accept(first.a.message());
    EXPECT_FALSE(of_b->confirms(first.of_a->confirmation()));
    EXPECT_FALSE(of_b->open(first.of_a->seal("a key")));
}

TEST(Pake, ASealedTextThatWasChangedOrCutIsNotRead) {
    const Exchange all = exchange(kInputs, kInputs);
    const std::string sealed = all.of_a->seal("a key");
    for (std::size_t i = 0; i < sealed.size(); ++i) {
        std::string changed = sealed;
        changed[i] = static_cast<char>(changed[i] ^ 1);
        EXPECT_FALSE(all.of_b->open(changed)) << i;
        EXPECT_FALSE(all.of_b->open(sealed.substr(0, i))) << i;
    }
    EXPECT_FALSE(all.of_b->confirms(""));
    EXPECT_FALSE(all.of_b->confirms(all.of_a->confirmation() + "x"));
}

}  // namespace
}  // namespace helix::net::pake_test
