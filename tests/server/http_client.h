#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace barge::test {

struct HttpReply {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  nlohmann::json json() const { return nlohmann::json::parse(body); }
};

/// A connection that sends just the bytes it is told. Throws std::runtime_error where the server
/// says nothing for ten seconds.
class HttpClient {
 public:
  explicit HttpClient(std::uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval patience{10, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    if (connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
      throw std::runtime_error("cannot connect");
  }
  ~HttpClient() { close(fd_); }
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// False: the server has closed the connection.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  /// The next answer, also "100 Continue". Status 0: the connection ended before it.
  HttpReply receive(bool has_body = true) {
    HttpReply reply = receive_header();
    if (!has_body) return reply;
    if (reply.headers.contains("transfer-encoding")) {
      for (std::string chunk = receive_chunk(); !chunk.empty(); chunk = receive_chunk())
        reply.body += chunk;
      return reply;
    }
    if (reply.headers.contains("content-length"))
      reply.body = take(std::stoul(reply.headers["content-length"]));
    return reply;
  }

  HttpReply receive_header() {
    HttpReply reply;
    std::size_t end = 0;
    while ((end = buffer_.find("\r\n\r\n")) == std::string::npos)
      if (!fill()) return reply;
    reply.status = std::stoi(buffer_.substr(9, 3));
    for (std::size_t at = buffer_.find("\r\n") + 2; at < end;) {
      const std::size_t line = buffer_.find("\r\n", at), colon = buffer_.find(':', at);
      std::string name = buffer_.substr(at, colon - at);
      std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
      reply.headers[name] = buffer_.substr(colon + 2, line - colon - 2);
      at = line + 2;
    }
    buffer_.erase(0, end + 4);
    return reply;
  }

  /// Of a body in chunks; the last one is empty.
  std::string receive_chunk() {
    std::size_t end = 0;
    while ((end = buffer_.find("\r\n")) == std::string::npos)
      if (!fill()) throw std::runtime_error("the answer's body was cut off");
    const std::size_t bytes = std::stoul(buffer_.substr(0, end), nullptr, 16);
    buffer_.erase(0, end + 2);
    std::string chunk = take(bytes);
    take(2);
    return chunk;
  }

  /// All until the server closes.
  std::string receive_rest() {
    while (fill()) {
    }
    return std::exchange(buffer_, {});
  }

  /// True if the server has nothing more to say and closed.
  bool is_over() { return buffer_.empty() && !fill(); }

  HttpReply call(const std::string& method, const std::string& target, const std::string& body = "",
                 const std::string& headers = "") {
    std::string text = method + ' ' + target + " HTTP/1.1\r\nHost: h\r\n" + headers;
    if (!body.empty() || method == "POST")
      text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
    send(text + "\r\n" + body);
    return receive(method != "HEAD");
  }

 private:
  std::string take(std::size_t bytes) {
    while (buffer_.size() < bytes)
      if (!fill()) throw std::runtime_error("the answer's body was cut off");
    std::string taken = buffer_.substr(0, bytes);
    buffer_.erase(0, bytes);
    return taken;
  }
  bool fill() {
    char chunk[65536];
    const ssize_t got = recv(fd_, chunk, sizeof(chunk), 0);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
      throw std::runtime_error("the server said nothing for ten seconds");
    if (got <= 0) return false;
    buffer_.append(chunk, static_cast<std::size_t>(got));
    return true;
  }

  int fd_;
  std::string buffer_;
};

}  // namespace barge::test
