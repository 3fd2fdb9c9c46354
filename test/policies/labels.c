// Requires the labels in its settings, {"required": ["team", ...]}, and warns of each that it found.
// runtimes: wapc wasi opa gatekeeper
#include "policy.h"

METADATA({
  "protocolVersion" : "v1",
  "executionMode" : MODE,
  "mutating" : false,
  "backgroundAudit" : true,
  "rules" : [ {
    "apiGroups" : [""],
    "apiVersions" : ["v1"],
    "resources" : ["pods"],
    "operations" : [ "CREATE", "UPDATE" ]
  } ],
  "annotations" : {"io.kubewarden.policy.title" : "labels", "io.kubewarden.policy.severity" : "medium"}
});

#ifdef REGO
text rego_sprintf(const char *how, text list);
#define MISSING(name) json_unquoted(rego_sprintf("label %v is missing", format("[%.*s]", SHOW(name))))
#else
#define MISSING(name) format("label %.*s is missing", SHOW(json_unquoted(name)))
#endif

answer validate(text request, text settings) {
  text labels = json_get(request, "object.metadata.labels"), key, name;
  const char *at = 0;
  text found = format("[");
  while (json_next(json_get(settings, "required"), &at, &key, &name)) {
    if (!there(json_member(labels, json_unquoted(name)))) {
      answer no = reject(MISSING(name));
      no.code = 422;
      no.annotations = format("{\"missing\":%.*s}", SHOW(name));
      return no;
    }
    found = format("%.*s%s%.*s", SHOW(found), found.size > 1 ? "," : "", SHOW(name));
  }
  answer yes = accept();
  if (found.size > 1) yes.warnings = format("%.*s]", SHOW(found));
  return yes;
}

text check_settings(text settings) {
  text required = json_get(settings, "required");
  return there(required) && *required.at == '[' ? text_of("") : text_of("settings need a list named required");
}
