#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace barge {

/// Takes the parts of a form as they come.
class FormSink {
 public:
  virtual ~FormSink() = default;
  /// A part begins. Names are as the client sent them.
  virtual void begin_part(const std::string& name, const std::string& filename,
                          bool has_filename) = 0;
  virtual void part_data(std::string_view bytes) = 0;
  virtual void end_part() = 0;
};

/// Reads a multipart/form-data body (RFC 7578) piece by piece, in memory for one part's headers
/// and a boundary. Throws RequestError for a malformed body, headers of a part over 8 KiB and more
/// than 32 parts.
class MultipartParser {
 public:
  /// The boundary that a Content-Type names; throws RequestError (415 for another type).
  static std::string boundary_of(std::string_view content_type);

  MultipartParser(std::string_view boundary, FormSink& sink);

  /// The next bytes of the body, split anywhere.
  void push(std::string_view bytes);
  /// The body is over. Throws if its last boundary hasn't come.
  void finish() const;

 private:
  enum class State { kPreamble, kAfterBoundary, kHeaders, kData, kEpilogue };

  // Where `text` stands in the buffer; npos: not yet. Throws where there is too much before it,
  // the same however the bytes were split.
  std::size_t find(std::string_view text, const char* refusal) const;
  bool step();
  bool read_data();
  void begin_part(std::string_view headers);

  const std::string delimiter_;  // "\r\n--boundary"
  FormSink& sink_;
  std::string buffer_;  // not consumed yet
  State state_ = State::kPreamble;
  int num_parts_ = 0;
};

}  // namespace barge
