//! JSON as text, read in place: enough for a policy that looks at a few fields, without any crate.

fn space(text: &[u8], mut at: usize) -> usize {
    while at < text.len() && text[at].is_ascii_whitespace() {
        at += 1;
    }
    at
}

/// The end of the value that begins at `at`.
fn skip(text: &[u8], mut at: usize) -> usize {
    if text.get(at) == Some(&b'"') {
        at += 1;
        while at < text.len() && text[at] != b'"' {
            at += 1 + usize::from(text[at] == b'\\');
        }
        return at + 1;
    }
    let mut depth = 0;
    while at < text.len() {
        match text[at] {
            b'"' => {
                at = skip(text, at);
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 0 => return at,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            b',' if depth == 0 => return at,
            _ => {}
        }
        at += 1;
    }
    at
}

/// The members of an object, or the items of a list with empty names; names and texts without quotes, escapes as they are.
pub fn members(json: &str) -> Vec<(&str, &str)> {
    let text = json.as_bytes();
    let mut found = Vec::new();
    let is_object = text.first() == Some(&b'{');
    if !is_object && text.first() != Some(&b'[') {
        return found;
    }
    let mut at = space(text, 1);
    while at < text.len() && text[at] != b'}' && text[at] != b']' {
        let mut name = "";
        if is_object {
            let end = skip(text, at);
            name = unquoted(&json[at..end]);
            at = space(text, space(text, end) + 1);
        }
        let end = skip(text, at);
        found.push((name, unquoted(json[at..end].trim_end())));
        at = space(text, end);
        if text.get(at) == Some(&b',') {
            at = space(text, at + 1);
        }
    }
    found
}

fn unquoted(value: &str) -> &str {
    value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(value)
}

/// By a path of members; empty where there is none.
pub fn get<'a>(json: &'a str, path: &[&str]) -> &'a str {
    path.iter().fold(json, |at, wanted| {
        members(at).into_iter().find(|(name, _)| name == wanted).map_or("", |(_, value)| value)
    })
}
