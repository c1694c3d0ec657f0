#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "core/errors.h"
#include "model/jinja/template.h"

namespace barge::jinja {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;
using testing::ThrowsMessage;

const std::filesystem::path kData = std::filesystem::path(BARGE_TEST_DATA) / "tokenizer/chat";

std::string render(const std::string& source,
                   const ordered_json& variables = ordered_json::object(), Limits limits = {}) {
  const Template made(source);
  Context context(limits);
  for (auto it = variables.begin(); it != variables.end(); ++it)
    context.set(it.key(), context.from_json(it.value()));
  return made.render(context);
}

TEST(Jinja, PrintsWhatJinja2Prints) {
  std::ifstream variables_file(kData / "variables.json"), snippets(kData / "snippets.jsonl");
  const auto variables = ordered_json::parse(variables_file);
  int checked = 0;
  for (std::string line; std::getline(snippets, line); ++checked) {
    const auto row = ordered_json::parse(line);
    const std::string source = row.at("template");
    try {
      EXPECT_EQ(render(source, variables), row.at("text").get<std::string>()) << source;
    } catch (const Error& e) {
      ADD_FAILURE() << source << ": " << e.what();
    }
  }
  EXPECT_GT(checked, 50);
}

TEST(Jinja, NamesTheLineAndTheConstructThatItLacks) {
  const auto refused = [](const std::string& source, const std::string& message) {
    EXPECT_THAT([&] { Template made(source); }, ThrowsMessage<FormatError>(HasSubstr(message)))
        << source;
  };
  refused("a\n{% include 'x' %}", "line 2: barge has no tag 'include'");
  refused("{% call f() %}{% endcall %}", "no tag 'call'");
  refused("{{ x|wordwrap }}", "no filter 'wordwrap'");
  refused("{{ x is sorted }}", "no test 'sorted'");
  refused("{% for x in y recursive %}{% endfor %}", "recursive loops");
  refused("{{ f(*x) }}", "f(*list)");
  refused("{% if x %}", "ends before endif");
  refused("{{ x", "never closed");
  refused("{# x", "never closed");
  refused("{{ 'x }}", "string is never closed");
  refused("{{ }}", "wanted an expression");
  refused("{{ a b }}", "wanted '}}'");
  refused("{{ (a }}", "'}' closes nothing");
  refused("{{ (a", "never closed");
  refused("{{ a ] }}", "']' closes nothing");
  refused("{{ a ? b }}", "'?' means nothing");
  refused("{% endfor %}", "no tag 'endfor'");
  refused("{% break %}", "outside of a loop");
  refused("{% raw %}", "no endraw");
  refused("{{ 99999999999999999999 }}", "too large");
  refused("{{ x[1:2:3:4] }}", "slice");
  refused("\xFF", "UTF-8");
}

TEST(Jinja, FailsAsARequestWhereValuesDoNotFit) {
  const auto fails = [](const std::string& source, const std::string& message) {
    EXPECT_THAT([&] { (void)render(source); }, ThrowsMessage<RequestError>(HasSubstr(message)))
        << source;
  };
  fails("{{ x.y }}", "line 1: 'x' is undefined");
  fails("{{ f() }}", "'f' is undefined");
  fails("{{ 'a'.center(5) }}", "no method 'center' of string");
  fails("{{ 'a' + 1 }}", "string + integer");
  fails("{{ 'a' + x }}", "undefined 'x'");
  fails("{{ 1 / 0 }}", "division by zero");
  fails("{{ 1 < 'a' }}", "cannot order");
  fails("{{ 9223372036854775807 + 1 }}", "larger than 64 bits");
  fails("{{ 2 ** 64 }}", "larger than 64 bits");
  fails("{{ none|length }}", "no length");
  fails("{% for x in 5 %}{% endfor %}", "cannot iterate");
  fails("{% set x = 1 %}{% set x.y = 2 %}", "not a namespace");
  fails("{% set a, b = [1] %}", "cannot unpack");
  fails("{{ x|tojson }}", "as JSON");
  fails("{{ [1]|join(1, 2, 3) }}", "at most 2 arguments");
  fails("{{ 'a'|replace(x=1) }}", "no argument called 'x'");
  fails("{{ raise_exception('own words') }}", "own words");
}

TEST(Jinja, EndsTemplatesThatWouldNeverEndOrFillTheMemory) {
  const auto fails = [](const std::string& source, const std::string& message) {
    EXPECT_THAT([&] { (void)render(source); }, ThrowsMessage<RequestError>(HasSubstr(message)))
        << source.substr(0, 100);
  };
  fails("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "nested more than");
  fails("{% for i in range(9999999999) %}{% endfor %}", "steps");
  fails("{% for i in range(2000) %}{% for j in range(2000) %}{% endfor %}{% endfor %}", "steps");
  fails("{{ 'x' * 999999999999 }}", "bytes of memory");
  fails("{{ 'x' * 9223372036854775807 }}", "bytes of memory");
  fails("{{ [0] * 9223372036854775807 }}", "bytes of memory");
  fails("{% set x = 'x' * 9999999 %}{{ x }}{{ x }}", "prints more than");
  fails(
      "{% set n = namespace(x='x') %}{% for i in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}",
      "bytes of memory");
  fails("{% set n = namespace(x=[]) %}{% for i in range(99) %}{% set n.x = [n.x] %}{% endfor %}",
        "more than 64 deep");
  fails(
      "{% set n = namespace(x=[0]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% endfor "
      "%}",
      "too large");
  fails("{% set n = namespace() %}{% set n.n = n %}{{ n }}{{ n|tojson }}", "as JSON");
  fails("{% set x = 'a' * 9000000 %}{% for i in range(9999) %}{{ x in x }}{% endfor %}", "steps");
}

TEST(Jinja, RefusesSourceThatNestsTooDeep) {
  const auto repeat = [](const std::string& unit) {
    std::string all;
    for (int i = 0; i < 100'000; ++i) all += unit;
    return all;
  };
  for (const char* unit : {"(", "[", "{", "not ", "- ", "x[", "f(", "1 if 2 else ", "x|map("})
    EXPECT_THROW(Template("{{ " + repeat(unit)), FormatError) << unit;
  EXPECT_THROW(Template(repeat("{% if x %}")), FormatError);
  EXPECT_THROW(Template(repeat("{% for x in y %}")), FormatError);
  // Chains are as long as they like.
  EXPECT_EQ(render("{{ 0" + repeat("+1") + " }}"), "100000");
  EXPECT_EQ(render("{{ ' '" + repeat("|trim") + " }}"), "");
  EXPECT_EQ(render("{{ 0" + repeat(" or 0") + " }}"), "0");
}

TEST(Jinja, SurvivesTemplatesThatAreBroken) {
  // Cut and spliced from ones that work: each gives text or one of barge's errors, never a crash.
  std::vector<std::string> parts;
  std::ifstream snippets(kData / "snippets.jsonl"), variables_file(kData / "variables.json");
  for (std::string line; std::getline(snippets, line);)
    parts.push_back(ordered_json::parse(line).at("template"));
  const auto variables = ordered_json::parse(variables_file);
  std::mt19937 rng(3);
  int rendered = 0, refused = 0;
  for (int i = 0; i < 3000; ++i) {
    const std::string &a = parts[rng() % parts.size()], &b = parts[rng() % parts.size()];
    std::string source = a.substr(0, rng() % a.size()) + b.substr(rng() % b.size());
    if (rng() % 2 == 0) source[rng() % source.size()] = static_cast<char>(rng() % 128);
    try {
      (void)render(source, variables, {.steps = 100'000});
      ++rendered;
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(rendered, 100);
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace barge::jinja
