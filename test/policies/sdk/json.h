// Reads JSON text in place: enough for policies that read a few fields. Only what is written is allocated.
#ifndef JSON_H
#define JSON_H
#include <stdarg.h>
// Not stdbool.h, whose `true` is a macro that would change the JSON of METADATA.
#define bool _Bool
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { false, true };

// A value as written in the document, with its quotes; size 0 if it is missing.
typedef struct {
  const char *at;
  size_t size;
} text;

static inline text text_of(const char *s) { return (text){s, strlen(s)}; }
static inline bool equals(text a, const char *b) { return a.size == strlen(b) && memcmp(a.at, b, a.size) == 0; }
static inline bool there(text a) { return a.size > 0 && !equals(a, "null"); }

static inline const char *json_space(const char *at, const char *end) {
  while (at < end && (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r')) at++;
  return at;
}

// The end of the value that begins at `at`.
static inline const char *json_skip(const char *at, const char *end) {
  if (at < end && *at == '"') {
    for (at++; at < end && *at != '"'; at++) at += *at == '\\';
    return at + 1;
  }
  if (at < end && (*at == '{' || *at == '[')) {
    int depth = 0;
    while (at < end) {
      if (*at == '"') {
        at = json_skip(at, end);
        continue;
      }
      if (*at == '{' || *at == '[') depth++;
      if ((*at == '}' || *at == ']') && --depth == 0) return at + 1;
      at++;
    }
    return at;
  }
  while (at < end && !strchr(",}] \n\t\r", *at)) at++;
  return at;
}

// The next member of an object, or item of a list; `at` is 0 for the first one.
static inline bool json_next(text json, const char **at, text *key, text *value) {
  const char *end = json.at + json.size;
  if (json.size < 2 || (*json.at != '{' && *json.at != '[')) return false;
  const char *p = json_space(*at ? *at : json.at + 1, end);
  if (p < end && *p == ',') p = json_space(p + 1, end);
  if (p >= end || *p == '}' || *p == ']') return false;
  *key = (text){p, 0};
  if (*json.at == '{') {
    key->size = (size_t)(json_skip(p, end) - p);
    p = json_space(p + key->size, end);
    p = json_space(p + 1, end);
  }
  value->at = p;
  p = json_skip(p, end);
  value->size = (size_t)(p - value->at);
  *at = p;
  return true;
}

// The string without its quotes. Escapes are not decoded.
static inline text json_unquoted(text value) {
  return value.size >= 2 && *value.at == '"' ? (text){value.at + 1, value.size - 2} : value;
}

static inline text json_member(text json, text name) {
  const char *at = 0;
  text key, value;
  while (json_next(json, &at, &key, &value)) {
    key = json_unquoted(key);
    if (key.size == name.size && memcmp(key.at, name.at, name.size) == 0) return value;
  }
  return (text){0, 0};
}

// The value at a path of members: "object.metadata.labels".
static inline text json_get(text json, const char *path) {
  while (*path && json.size > 0) {
    size_t size = strcspn(path, ".");
    json = json_member(json, (text){path, size});
    path += size + (path[size] == '.');
  }
  return json;
}

// Like printf. The text is never freed, because the instance is short-lived.
static inline text format(const char *how, ...) {
  va_list args, again;
  va_start(args, how);
  va_copy(again, args);
  int size = vsnprintf(0, 0, how, args);
  char *at = malloc((size_t)size + 1);
  vsnprintf(at, (size_t)size + 1, how, again);
  va_end(again);
  va_end(args);
  return (text){at, (size_t)size};
}

// The two arguments of %.*s in format().
#define SHOW(t) (int)(t).size, (t).at
#endif
