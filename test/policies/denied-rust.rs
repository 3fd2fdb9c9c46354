//! `denied.c` in Rust: refuses objects whose name is among {"denied": [...]}, which must not be empty.
// runtimes: wapc wasi
#[path = "sdk/json.rs"]
mod json;
#[cfg(wapc)]
#[path = "sdk/wapc.rs"]
mod wapc;
#[cfg(wasi)]
#[path = "sdk/wasi.rs"]
mod wasi;
#[cfg(wasi)]
fn main() {
    wasi::run();
}

// `MODE` is that of the runtime; scripts/build-policies sets it.
const TEXT: &str = concat!(
    r#"{"protocolVersion":"v1","executionMode":""#,
    env!("MODE"),
    r#"","mutating":false,"rules":[]}"#
);

#[used]
#[link_section = "io.kubewarden.metadata"]
static METADATA: [u8; TEXT.len()] = {
    let (mut bytes, mut at) = ([0; TEXT.len()], 0);
    while at < bytes.len() {
        bytes[at] = TEXT.as_bytes()[at];
        at += 1;
    }
    bytes
};

pub fn validate(input: &str) -> String {
    let name = json::get(input, &["request", "object", "metadata", "name"]);
    let denied = json::members(json::get(input, &["settings", "denied"]));
    if denied.iter().any(|(_, each)| *each == name) {
        return format!(r#"{{"accepted":false,"message":"{name} is denied"}}"#);
    }
    r#"{"accepted":true}"#.to_string()
}

pub fn check_settings(settings: &str) -> String {
    let is_empty = json::members(json::get(settings, &["denied"])).is_empty();
    let answer = if is_empty { r#"{"valid":false,"message":"no name is denied"}"# } else { r#"{"valid":true}"# };
    answer.to_string()
}
