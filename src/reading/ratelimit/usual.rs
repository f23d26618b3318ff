//! The usual form of a list, read without a parser of all structured fields and without an allocation:
//! `"default";r=50;t=30, "daily";q=1000;w=86400`. Whatever has anything else in it is left to that parser.

use arrayvec::ArrayVec;

use super::super::value::{Clock, scan_digits};
use super::member::{Bare, Member};

/// The most members that are read so.
const MAX_MEMBERS: usize = 4;

pub(super) type Members = ArrayVec<Member, MAX_MEMBERS>;

/// Reads a list; whether it was all of the usual form.
pub(super) fn read(value: &[u8], clock: &Clock<'_>, members: &mut Members) -> bool {
    list(value, clock, members).is_some()
}

fn list(value: &[u8], clock: &Clock<'_>, members: &mut Members) -> Option<()> {
    let mut rest = value;
    loop {
        match skip(member(rest, clock, members)?, b" \t") {
            [] => return Some(()),
            [b',', tail @ ..] => rest = skip(tail, b" \t"),
            _ => return None,
        }
    }
}

/// Reads one member, in its place, for it is large to be moved.
fn member<'v>(value: &'v [u8], clock: &Clock<'_>, members: &mut Members) -> Option<&'v [u8]> {
    let (name, mut rest) = bare(value)?;
    members.try_push(Member::named(name, true)).ok()?;
    let member = members.last_mut()?;
    while let [b';', tail @ ..] = rest {
        let (key, tail) = key(skip(tail, b" "))?;
        let (value, tail) = bare(tail.strip_prefix(b"=")?)?;
        member.note(key, Some(value), clock);
        rest = tail;
    }
    Some(rest)
}

/// What follows any of some bytes.
#[inline]
fn skip<'v>(text: &'v [u8], any: &[u8]) -> &'v [u8] {
    let mut rest = text;
    while let [byte, tail @ ..] = rest
        && any.contains(byte)
    {
        rest = tail;
    }
    rest
}

/// A key of lower-case letters, and what follows it.
#[inline]
fn key(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = text.iter().position(|byte| !byte.is_ascii_lowercase())?;
    text.split_at_checked(end).filter(|(key, _)| !key.is_empty())
}

/// A string without escapes, or an integer without a sign.
fn bare(text: &[u8]) -> Option<(Bare<'_>, &[u8])> {
    if let [b'"', text @ ..] = text {
        let end = text.iter().position(|byte| !matches!(byte, b' ' | b'!' | b'#'..=b'[' | b']'..=b'~'))?;
        let (string, rest) = text.split_at_checked(end)?;
        return Some((Bare::String(string), rest.strip_prefix(b"\"")?));
    }
    let (number, count) = scan_digits(text);
    let rest = text.get(count..)?;
    // Structured fields have integers of up to fifteen digits.
    let is_integer = (1..=15).contains(&count) && rest.first() != Some(&b'.');
    is_integer.then_some((Bare::Whole(number), rest))
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use http::HeaderMap;
    use sfv::{List, ListEntry, Parser};

    use super::*;

    /// What either way reads, printed.
    fn both(value: &str) -> (Option<String>, Option<String>) {
        let headers = HeaderMap::new();
        let clock = Clock::new(&headers, SystemTime::UNIX_EPOCH);
        let mut members = Members::new();
        let usual = read(value.as_bytes(), &clock, &mut members).then(|| format!("{members:?}"));
        let general = Parser::new(value).parse::<List>().ok().map(|list| {
            let members: Vec<_> = list
                .iter()
                .filter_map(|entry| match entry {
                    ListEntry::Item(item) => Some(Member::of(item, &clock)),
                    ListEntry::InnerList(_) => None,
                })
                .collect();
            format!("{members:?}")
        });
        (usual, general)
    }

    #[test]
    fn the_usual_way_says_the_same() {
        for value in [
            "\"default\";r=50;t=30",
            "\"default\";q=100;w=60",
            "100;w=60",
            "100;w=60, 1000;w=3600",
            "\"a\";r=3;t=5 \t,\t \"b\";r=4;t=90  ",
            "\"a\";q=5;qu=\"tokens\";  r=007;r=8",
            "\"\";t=\"2024-06-03T10:59:41Z\"",
            "\"a\";q=\"5\";r=\"x\";pk=1;w=0;qu=5",
            "123456789012345",
        ] {
            let (usual, general) = both(value);
            assert!(usual.is_some(), "{value}");
            assert_eq!(usual, general, "{value}");
        }
    }

    #[test]
    fn anything_else_is_left_to_the_parser() {
        for value in [
            "",
            " \"a\"",
            "\"a\",",
            "\"a\";",
            "\"a\";r",
            "\"a\";r=1.5",
            "\"a\";r=-1",
            "\"a\";r=?1",
            "\"a\";R=1",
            "\"a\";r2=1",
            "\"a\" ;r=1",
            "\"a\\\"\";r=1",
            "\"é\";r=1",
            "\"a",
            "a;r=1",
            "(1 2);r=1",
            "1234567890123456",
            "limit=10, remaining=0, reset=5",
            "1, 2, 3, 4, 5",
        ] {
            assert_eq!(both(value).0, None, "{value}");
        }
    }
}
