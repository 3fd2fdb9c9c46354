// The answers of waPC and WASI policies, in Kubewarden's format.
#ifndef ANSWER_H
#define ANSWER_H
#include "policy.h"

static inline text with(text json, bool is, const char *name, text value, bool quoted) {
  const char *quote = quoted ? "\"" : "";
  return is ? format("%.*s,\"%s\":%s%.*s%s", SHOW(json), name, quote, SHOW(value), quote) : json;
}

static inline text answer_json(answer a) {
  if (a.raw) return a.message;
  text json = format("{\"accepted\":%s", a.accepted ? "true" : "false");
  json = with(json, a.message.size > 0, "message", a.message, true);
  if (a.code != 0) json = with(json, true, "code", format("%d", a.code), false);
  json = with(json, a.mutated.size > 0, "mutated_object", a.mutated, false);
  json = with(json, a.warnings.size > 0, "warnings", a.warnings, false);
  json = with(json, a.annotations.size > 0, "audit_annotations", a.annotations, false);
  return format("%.*s}", SHOW(json));
}

static inline text settings_json(text message) {
  text json = format("{\"valid\":%s", message.size == 0 ? "true" : "false");
  json = with(json, message.size > 0, "message", message, true);
  return format("%.*s}", SHOW(json));
}
#endif
