#include "server/multipart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "core/errors.h"

namespace barge {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

// Writes down what it gets: "name|filename|data".
class Notes final : public FormSink {
 public:
  void begin_part(const std::string& name, const std::string& filename,
                  bool has_filename) override {
    parts.push_back(name + '|' + (has_filename ? filename : "-") + '|');
    open = true;
  }
  void part_data(std::string_view bytes) override {
    ASSERT_TRUE(open && !bytes.empty());
    parts.back() += bytes;
  }
  void end_part() override { open = false; }

  std::vector<std::string> parts;
  bool open = false;
};

std::vector<std::string> parse(const std::string& body, std::size_t step = 1'000'000,
                               const std::string& boundary = "XX") {
  Notes notes;
  MultipartParser parser(boundary, notes);
  for (std::size_t at = 0; at < body.size(); at += step) parser.push(body.substr(at, step));
  parser.finish();
  EXPECT_FALSE(notes.open);
  return notes.parts;
}

std::string part(const std::string& disposition, const std::string& data) {
  return "--XX\r\nContent-Disposition: form-data; " + disposition + "\r\n\r\n" + data + "\r\n";
}

TEST(Multipart, ReadsPartsHoweverTheBytesAreSplit) {
  const std::string data = "a\r\n--X\r\n--XY\r\n-\r\r\n--\r\n\r\nb\r";
  const std::string body = "preamble\r\n" + part("name=\"file\"; filename=\"f.jsonl\"", data) +
                           part("name=\"empty\"", "") + part("name=purpose", "batch") +
                           "--XX--\r\nepilogue --XX";
  for (std::size_t step = 1; step < 70; ++step)
    EXPECT_THAT(parse(body, step),
                ElementsAre("file|f.jsonl|" + data, "empty|-|", "purpose|-|batch"))
        << step << " bytes at a time";
}

TEST(Multipart, UnderstandsNamesAsClientsWriteThem) {
  EXPECT_THAT(parse(part("filename=\"a%22b;\\\"c\\d.txt\"; name=\"file\"", "x") + "--XX--"),
              ElementsAre("file|a\"b;\"c\\d.txt|x"));
  EXPECT_THAT(parse("--XX  \r\ncontent-type: text/plain\r\nCONTENT-DISPOSITION:form-data;NAME=n\r\n"
                    "\r\nx\r\n--XX--"),
              ElementsAre("n|-|x"));
  EXPECT_THAT(parse(part("name=\"f\"; filename=\"\xc3\xa9\"", "x") + "--XX--"),
              ElementsAre("f|\xc3\xa9|x"));
  EXPECT_THAT(parse(part("name=\"f\"; filename=\"unclosed", "x") + "--XX--"),
              ElementsAre("f|unclosed|x"));
}

TEST(Multipart, ReadsBoundariesFromContentTypes) {
  EXPECT_EQ(MultipartParser::boundary_of("multipart/form-data; boundary=a-b"), "a-b");
  EXPECT_EQ(MultipartParser::boundary_of("Multipart/Form-Data;charset=x; Boundary=\"a b\""), "a b");
  for (const char* type : {"multipart/form-data", "multipart/form-data; boundary=",
                           "multipart/form-data; boundary", "multipart/form-data;;;="})
    EXPECT_THAT([&] { MultipartParser::boundary_of(type); },
                ThrowsMessage<RequestError>(HasSubstr("no boundary")));
  for (const char* type : {"application/json", "", "multipart/mixed; boundary=a"}) {
    try {
      MultipartParser::boundary_of(type);
      FAIL() << type;
    } catch (const RequestError& error) {
      EXPECT_EQ(error.status, 415);
    }
  }
}

TEST(Multipart, RefusesWhatIsMalformed) {
  const auto refuses = [](const std::string& body, const char* why) {
    for (const std::size_t step : {std::size_t{1}, std::size_t{1} << 20})
      EXPECT_THAT([&] { parse(body, step); }, ThrowsMessage<RequestError>(HasSubstr(why)));
  };
  refuses("", "ends before its last boundary");
  refuses(part("name=a", "x"), "ends before its last boundary, in part 1");
  refuses("--XX\r\n", "ends before");
  refuses("--XX garbage\r\n", "text behind a boundary");
  refuses(part("filename=a", "x") + "--XX--", "a part without a name");
  refuses("--XX\r\n\r\n\r\nx\r\n--XX--", "a part without a name");
  refuses(std::string(9000, 'p'), "doesn't begin with its boundary");
  refuses("--XX\r\nA: " + std::string(9000, 'h') + "\r\n\r\n", "bytes of headers");
  std::string many;
  for (int i = 0; i < 33; ++i) many += part("name=a", "");
  refuses(many + "--XX--", "more than 32 parts");
}

TEST(Multipart, HasTheSameLimitsHoweverTheBytesAreSplit) {
  const auto accepts = [](const std::string& body, std::size_t step) {
    try {
      parse(body, step);
      return true;
    } catch (const RequestError&) {
      return false;
    }
  };
  const std::string end = "\r\n--XX--";
  for (std::size_t bytes = 8170; bytes < 8210; ++bytes) {
    const std::string x(bytes, 'x'), blank(bytes, ' ');
    const std::string name = "Content-Disposition: form-data; name=a";
    for (const std::string& body :
         {x + "\r\n--XX\r\n" + name + "\r\n\r\n" + end,
          "--XX" + blank + "\r\n" + name + "\r\n\r\n" + end,
          "--XX\r\n" + name + "\r\nX: " + x.substr(43) + "\r\n\r\n" + end}) {
      const bool whole = accepts(body, body.size());
      for (const std::size_t step : {1, 2, 5, 1000}) EXPECT_EQ(accepts(body, step), whole) << bytes;
    }
  }
}

}  // namespace
}  // namespace barge
