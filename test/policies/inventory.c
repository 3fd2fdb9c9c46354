// Rejects each object, with the part of its data that the settings name as message: {"show": "inventory.namespace.shop"}.
// runtimes: opa gatekeeper
#include "policy.h"

METADATA({
  "protocolVersion" : "v1",
  "executionMode" : MODE,
  "mutating" : false,
  "rules" : [],
  "contextAwareResources" : [ {"apiVersion" : "v1", "kind" : "Namespace"}, {"apiVersion" : "v1", "kind" : "ConfigMap"} ]
});

extern text rego_data;

answer validate(text request, text settings) {
  text path = json_unquoted(json_get(settings, "show"));
  text found = json_get(rego_data, format("%.*s", SHOW(path)).at);
  return reject(found.size > 0 ? json_unquoted(found) : text_of("nothing"));
}

text check_settings(text settings) { return text_of(""); }
