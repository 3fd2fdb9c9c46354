// What a policy is, whatever runs it: compiled with wapc.c, wasi.c or rego.c.
#ifndef POLICY_H
#define POLICY_H
#include "json.h"

typedef struct {
  bool accepted;
  text message;    // without quotes, as JSON has it
  int code;        // 0: none
  text mutated;    // the whole object
  text warnings;   // a list
  text annotations;  // an object
  bool raw;        // `message` is the whole answer
} answer;

// Of the policy.
answer validate(text request, text settings);
// The message is empty where they are valid.
text check_settings(text settings);

// Of the runtime: the answer of the host, or its error with `*failed` set.
text host_call(const char *space, const char *operation, text payload, bool *failed);

static inline answer accept(void) { return (answer){.accepted = true}; }
static inline answer reject(text message) { return (answer){.message = message}; }

// Of the policy, as JSON without quotes around it; the assembler wants it quoted twice.
#define QUOTE(...) #__VA_ARGS__
#define QUOTED(...) QUOTE(__VA_ARGS__)
#define METADATA(...) \
  __asm__(".section .custom_section.io.kubewarden.metadata,\"\",@\n.ascii " QUOTED(QUOTED(__VA_ARGS__)) "\n.text\n")
#endif
