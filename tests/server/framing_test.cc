// What isn't one HTTP request beyond doubt is refused, and the connection ends behind the answer:
// no byte of it may be taken for another request.
#include "tests/server/server_fixture.h"

namespace barge::test {
namespace {

struct Shape {
  const char* name;
  std::string text;
  int status;
};
std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << shape.name; }

class Framing : public ServerTest, public testing::WithParamInterface<Shape> {};

// A request that must not be seen: it would be answered, too.
constexpr const char* kSmuggled = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";

std::string post(const char* rest) {
  return concat("POST /v1/batches HTTP/1.1\r\nHost: localhost\r\n", rest);
}

TEST_P(Framing, IsRefusedAndEndsTheConnection) {
  start();
  HttpClient client(server_->port());
  client.send(GetParam().text);
  client.send(kSmuggled);
  const HttpReply reply = client.receive();
  EXPECT_EQ(reply.status, GetParam().status) << reply.body;
  EXPECT_TRUE(reply.headers.contains("x-request-id"));
  EXPECT_EQ(reply.headers.at("connection"), "close");
  EXPECT_TRUE(reply.json()["error"].contains("message"));
  EXPECT_EQ(client.receive_rest(), "");
}

INSTANTIATE_TEST_SUITE_P(
    Table, Framing,
    testing::Values(
        Shape{"LengthAndChunks",
              post("Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400},
        Shape{"ChunksAndLength",
              post("Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n"), 400},
        Shape{"TwoLengths", post("Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} "), 400},
        Shape{"TheSameLengthTwice", post("Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}"), 400},
        Shape{"AListOfLengths", post("Content-Length: 2, 2\r\n\r\n{}"), 400},
        Shape{"ALengthWithASign", post("Content-Length: +2\r\n\r\n{}"), 400},
        Shape{"ANegativeLength", post("Content-Length: -2\r\n\r\n{}"), 400},
        Shape{"AnEmptyLength", post("Content-Length: \r\n\r\n{}"), 400},
        Shape{"ALengthBeyond64Bits", post("Content-Length: 99999999999999999999999\r\n\r\n{}"),
              400},
        Shape{"TwoEncodings",
              post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"
                   "0\r\n\r\n"),
              400},
        Shape{"AnotherEncoding", post("Transfer-Encoding: gzip\r\n\r\n0\r\n\r\n"), 400},
        Shape{"AnotherEncodingAndALength",
              post("Transfer-Encoding: gzip\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"), 400},
        Shape{"ChunksInsideOfAnotherEncoding",
              post("Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n"), 400},
        Shape{"AnUnknownWordForChunks", post("Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"), 400},
        Shape{"AnEncodingWithASpaceBeforeItsColon",
              post("Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"), 400},
        Shape{"ChunksInHttp10",
              "POST /v1/batches HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
        Shape{"AFoldedField", post("X: a\r\n Content-Length: 5\r\n\r\n"), 400},
        Shape{"AFoldedEncoding", post("Transfer-Encoding:\r\n\tchunked\r\n\r\n"), 400},
        Shape{"ALineEndOfOneByte", post("X: a\nContent-Length: 5\r\n\r\n"), 400},
        Shape{"ALineEndOfACarriageReturn", post("X: a\rContent-Length: 5\r\n\r\n"), 400},
        Shape{"NoHost", "GET /health HTTP/1.1\r\n\r\n", 400},
        Shape{"TwoHosts", "GET /health HTTP/1.1\r\nHost: localhost\r\nHost: b\r\n\r\n", 400},
        Shape{"AnotherProtocol", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400},
        Shape{"AnEmptyLineFirst", "\r\n\r\n", 400},
        Shape{"AChunkThatIsNotANumber",
              post("Transfer-Encoding: chunked\r\n\r\nZZ\r\n{}\r\n0\r\n\r\n"), 400},
        Shape{"AChunkWithASign", post("Transfer-Encoding: chunked\r\n\r\n+2\r\n{}\r\n0\r\n\r\n"),
              400},
        Shape{"AChunkInC", post("Transfer-Encoding: chunked\r\n\r\n0x2\r\n{}\r\n0\r\n\r\n"), 400},
        Shape{"AChunkBeyond64Bits",
              post("Transfer-Encoding: chunked\r\n\r\n10000000000000002\r\n{}\r\n0\r\n\r\n"), 400},
        Shape{"AChunkThatIsLongerThanItSays",
              post("Transfer-Encoding: chunked\r\n\r\n2\r\n{}garbage\r\n0\r\n\r\n"), 400},
        Shape{"AnExpectationThatNobodyKnows",
              post("Expect: wonders\r\nContent-Length: 2\r\n\r\n{}"), 417}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_F(ServerTest, ReadsRequestsThatComeTogetherOneByOne) {
  start();
  HttpClient client(server_->port());
  const std::string chunked =
      post("Transfer-Encoding: Chunked\r\n\r\n1;a=b\r\n{\r\n1\r\n}\r\n0\r\nX: y\r\n\r\n");
  client.send(kSmuggled + chunked + kSmuggled);
  EXPECT_EQ(client.receive().status, 200);
  const HttpReply reply = client.receive();
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(reply.json()["error"]["param"], "input_file_id");  // so "{}" was read
  EXPECT_EQ(client.receive().status, 200);
}

}  // namespace
}  // namespace barge::test
