// Sets the label `owner` to the requesting user's name if it is missing. {"copy": true}: returns the object even if unchanged.
// runtimes: wapc wasi opa
#include "policy.h"

METADATA({"protocolVersion" : "v1", "executionMode" : MODE, "mutating" : true, "rules" : []});

answer validate(text request, text settings) {
  text object = json_get(request, "object");
  answer yes = accept();
  if (equals(json_get(request, "operation"), "\"DELETE\"")) {
    if (equals(json_get(settings, "copy"), "true")) yes.mutated = text_of("{}");
    return yes;
  }
  bool is_set = there(json_get(object, "metadata.labels.owner"));
  if (is_set && !equals(json_get(settings, "copy"), "true")) return yes;
#ifdef REGO
  // Base64 of [{"op":"add","path":"/metadata/labels/owner","value":"rego"}]
  yes.mutated = text_of("\"W3sib3AiOiJhZGQiLCJwYXRoIjoiL21ldGFkYXRhL2xhYmVscy9vd25lciIsInZhbHVlIjoicmVnbyJ9XQ==\"");
#else
  if (is_set) {
    yes.mutated = object;
    return yes;
  }
  text labels = json_get(object, "metadata.labels"), user = json_get(request, "userInfo.username");
  size_t before = (size_t)(labels.at - object.at) + 1;
  const char *comma = labels.size > 2 ? "," : "";
  yes.mutated = format("%.*s\"owner\":%.*s%s%.*s", (int)before, object.at, SHOW(user), comma, (int)(object.size - before),
                       object.at + before);
#endif
  return yes;
}

text check_settings(text settings) { return text_of(""); }
