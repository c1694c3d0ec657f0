#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace barge {

/// Base of all that barge throws. The message says what was attempted, on which object, what was
/// wanted and got, and what to do; it is shown to the user as it is.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A flag, a policy or a combination of them that can't be carried out (exit status 1 or 2).
class ConfigError : public Error {
 public:
  using Error::Error;
};

/// A checkpoint, a pack, a tokenizer or a JSON document that is not what it claims to be.
class FormatError : public Error {
 public:
  using Error::Error;
};

/// The operating system refused or cut short a read or a write.
class IoError : public Error {
 public:
  using Error::Error;
};

/// An allocation that does not fit the budget of its tier, or that the system refused.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

/// The accelerator failed. It does nothing from now on: the process has to end, and its job goes on
/// at the next start.
class DeviceError : public Error {
 public:
  using Error::Error;
};

/// A request that can't be answered. It ends only that request.
/// `param` names the field at fault, `code` is OpenAI's error code; both may be empty.
class RequestError : public Error {
 public:
  explicit RequestError(const std::string& message, std::string param = "", std::string code = "",
                        int status = 400)
      : Error(message), param(std::move(param)), code(std::move(code)), status(status) {}

  std::string param, code;
  int status;  // of the HTTP response
};

/// Joins its arguments, each as `<<` prints it.
template <typename... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

}  // namespace barge
