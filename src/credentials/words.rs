//! Which words in a name say that its value is a credential.

mod lists;

use lists::{
    HARMLESS_CODE, HARMLESS_KEY, HARMLESS_PASS, HARMLESS_SIGN, HARMLESS_TICKET, HARMLESS_TOKEN,
    KINDS_OF_CODE, KINDS_OF_KEY, KINDS_OF_TOKEN, QUANTITIES, STEMS, WHOLE,
};

/// Whether a header or parameter of this name carries a credential, by the words in its name.
///
/// Names are split at every character that is no letter or digit, and at capitals: `x-api-key`, `accessToken` and
/// `X.Session_Id` have the words that they seem to have. Words written together are known as well (`xapikey`). A name that
/// may mean either counts as a credential, unless another of its words says otherwise, as in `page_token`. The word just
/// before goes first: `page_access_token` is an access token.
pub(crate) fn names_credential(name: &str) -> bool {
    // `APIkey` has no hump at the joint of its words.
    if name.split(is_between).any(|part| without_end(part, "key").is_some_and(names_kind_of_key)) {
        return true;
    }
    let mut before = "";
    words(name).enumerate().any(|(index, word)| {
        let before = std::mem::replace(&mut before, word);
        match Meaning::of(word) {
            Meaning::Credential => true,
            Meaning::CredentialUnless { harmless, kinds } => {
                let after = words(name).nth(index.saturating_add(1)).unwrap_or_default();
                let is_kind = is_any(before, kinds) && !is_any(after, QUANTITIES);
                is_kind || !words(name).any(|other| is_any(other, harmless))
            }
            Meaning::KindOfKeys => is_any(before, KINDS_OF_KEY),
            Meaning::Other => false,
        }
    })
}

/// Whether the value goes with one request alone, so that the next of the same caller has another one: a signature, or the
/// moment and the nonce that are signed.
pub(super) fn names_proof(name: &str) -> bool {
    words(name).any(|word| {
        is_any(word, "sig sign nonce cnonce timestamp ts date expires")
            || each("signature hmac dpop csrf xsrf").any(|stem| contains(word, stem))
    })
}

/// Whether the value names an account, which servers count limits by.
pub(super) fn names_account(name: &str) -> bool {
    words(name).any(|word| {
        // `orgid` is written as one word if capitals are lost.
        let word = without_end(word, "id").unwrap_or(word);
        is_any(word, "organization organisation org project workspace account")
    })
}

enum Meaning {
    Credential,
    /// A credential, unless a harmless word stands anywhere beside it and none of its kinds just before it.
    CredentialUnless {
        harmless: &'static str,
        kinds: &'static str,
    },
    /// Credentials, if a kind of key stands just before.
    KindOfKeys,
    Other,
}

impl Meaning {
    fn of(word: &str) -> Self {
        // `token2` and `oauth2` are such words, too.
        let word = word.trim_end_matches(|last: char| last.is_ascii_digit());
        if each(STEMS).any(|stem| contains(word, stem)) || is_any(word, WHOLE) || is_joined(word) {
            return Self::Credential;
        }
        let unless = |harmless, kinds| Self::CredentialUnless { harmless, kinds };
        match () {
            () if word.eq_ignore_ascii_case("token") => unless(HARMLESS_TOKEN, KINDS_OF_TOKEN),
            () if word.eq_ignore_ascii_case("key") => unless(HARMLESS_KEY, KINDS_OF_KEY),
            () if word.eq_ignore_ascii_case("code") => unless(HARMLESS_CODE, KINDS_OF_CODE),
            () if word.eq_ignore_ascii_case("ticket") => unless(HARMLESS_TICKET, ""),
            () if word.eq_ignore_ascii_case("pass") => unless(HARMLESS_PASS, ""),
            () if word.eq_ignore_ascii_case("sign") => unless(HARMLESS_SIGN, ""),
            () if word.eq_ignore_ascii_case("keys") => Self::KindOfKeys,
            () => Self::Other,
        }
    }
}

/// Whether a word is one of a credential, written together with others.
fn is_joined(word: &str) -> bool {
    if starts_with(word, "auth") {
        // `authkey`, `authid`; not `author`.
        return !starts_with(word, "author");
    }
    if ends_with(word, "auth") || ends_with(word, "pwd") {
        return true;
    }
    if let Some(start) = find(word, "session") {
        return !word.get(start..).unwrap_or_default().eq_ignore_ascii_case("sessions")
            && !ends_with(word, "possession");
    }
    // `accesskeyid` names the key.
    if let Some(before) = without_end(word, "key").or_else(|| without_end(word, "keyid")) {
        return before.eq_ignore_ascii_case("x") || names_kind_of_key(before);
    }
    if let Some(before) = without_end(word, "code") {
        return is_any(before, "access login security verification x");
    }
    let Some(start) = find(word, "token").filter(|_| word.len() > "token".len()) else { return false };
    let before = word.get(..start).unwrap_or_default();
    let after = word.get(start.saturating_add("token".len())..).unwrap_or_default();
    if starts_with(after, "str") || each(KINDS_OF_TOKEN).any(|kind| ends_with(before, kind)) {
        return true;
    }
    let is_number_or_kind = each("s iz is count limit budget type").any(|end| starts_with(after, end));
    !is_number_or_kind && !each(HARMLESS_TOKEN).any(|harmless| ends_with(before, harmless))
}

fn names_kind_of_key(before: &str) -> bool {
    each(KINDS_OF_KEY).any(|kind| ends_with(before, kind))
}

/// The words of a name.
fn words(name: &str) -> impl Iterator<Item = &str> {
    let mut rest = name;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(is_between);
        let end = rest.find(is_between).unwrap_or(rest.len());
        let (part, _) = rest.split_at_checked(end)?;
        let (word, after) = rest.split_at_checked(first_hump(part))?;
        rest = after;
        (!word.is_empty()).then_some(word)
    })
}

fn is_between(character: char) -> bool {
    character.is_ascii() && !character.is_ascii_alphanumeric()
}

/// Where the first of several words ends that are told apart by capitals: `access|Token`, `API|Key`.
fn first_hump(part: &str) -> usize {
    let bytes = part.as_bytes();
    let ends = bytes.windows(2).enumerate().find_map(|(index, pair)| {
        let [one, other] = pair else { return None };
        let next = bytes.get(index.saturating_add(2));
        let rises = !one.is_ascii_uppercase() && other.is_ascii_uppercase();
        let falls = one.is_ascii_uppercase()
            && other.is_ascii_uppercase()
            && next.is_some_and(u8::is_ascii_lowercase);
        (rises || falls).then_some(index.saturating_add(1))
    });
    ends.unwrap_or(part.len())
}

/// The words of a list.
fn each(list: &str) -> std::str::Split<'_, char> {
    list.split(' ')
}

fn is_any(word: &str, list: &str) -> bool {
    !word.is_empty() && each(list).any(|one| word.eq_ignore_ascii_case(one))
}

fn find(word: &str, part: &str) -> Option<usize> {
    let (part, first) = (part.as_bytes(), part.as_bytes().first()?);
    let is_part = |window: &[u8]| {
        window.first().is_some_and(|byte| byte.eq_ignore_ascii_case(first))
            && window.eq_ignore_ascii_case(part)
    };
    word.as_bytes().windows(part.len()).position(is_part)
}

fn contains(word: &str, part: &str) -> bool {
    find(word, part).is_some()
}

fn starts_with(word: &str, start: &str) -> bool {
    word.get(..start.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(start))
}

fn ends_with(word: &str, end: &str) -> bool {
    without_end(word, end).is_some()
}

fn without_end<'a>(word: &'a str, end: &str) -> Option<&'a str> {
    let (before, last) = word.split_at_checked(word.len().checked_sub(end.len())?)?;
    last.eq_ignore_ascii_case(end).then_some(before)
}
