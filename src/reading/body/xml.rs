//! XML faults, as far as SOAP services and object stores need it: each element's name and the text directly in it.

const MAX_ELEMENTS: usize = 512;

/// Calls `each` with the name and text of every element that has one; a `Name` attribute is the name, as in Exchange's
/// `<t:Value Name="BackOffMilliseconds">`. HTML is a page for people, and says nothing.
pub(super) fn elements(text: &str, mut each: impl FnMut(&str, &str)) {
    let start = text.trim_start_matches(['<', '!']);
    let begins = |name: &str| start.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
    if begins("html") || begins("doctype html") || begins("head") || begins("body") {
        return;
    }
    let mut rest = text;
    for _ in 0..MAX_ELEMENTS {
        let Some((tag, content)) = rest.split_once('<').and_then(|(_, tag)| tag.split_once('>')) else {
            return;
        };
        rest = content;
        if tag.starts_with(['/', '?', '!']) || tag.ends_with('/') {
            continue;
        }
        let (element, attributes) = tag.split_once(char::is_whitespace).unwrap_or((tag, ""));
        let local = element.rsplit(':').next().unwrap_or(element);
        if local.eq_ignore_ascii_case("html") {
            return;
        }
        let named = attributes.split_once("Name=\"").and_then(|(_, name)| name.split_once('"'));
        let inner = content.split('<').next().unwrap_or_default().trim();
        if !inner.is_empty() {
            each(named.map_or(local, |(name, _)| name), inner);
        }
    }
}
