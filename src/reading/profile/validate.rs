//! What a profile may say, and the form in which it is compared.

use http::{HeaderName, StatusCode};
use jiff::fmt::strtime;

use super::ProfileError;
use super::rules::{Rules, normal_code};

/// The seconds of an offset such as `+08:00`.
pub(super) fn parse_offset(text: &str) -> Result<i32, ProfileError> {
    let offset = strtime::parse("%:z", text).ok().and_then(|parsed| parsed.offset());
    offset
        .map(|offset| offset.seconds())
        .filter(|seconds| seconds.abs() < 15 * 3_600 && seconds % 60 == 0 && text.len() == 6)
        .ok_or_else(|| ProfileError::new("utc_offset", text, "the form +08:00"))
}

/// The form that a value is compared in; `None` if it can match nothing.
type Form = fn(&str) -> Option<String>;

fn header(name: &str) -> Option<String> {
    HeaderName::try_from(name).ok().map(|name| name.as_str().to_owned())
}

fn path(path: &str) -> Option<String> {
    (!path.is_empty() && !path.contains(char::is_whitespace)).then(|| path.to_ascii_lowercase())
}

fn code(code: &str) -> Option<String> {
    let any_beginning = if code.starts_with('*') { "*" } else { "" };
    let code = normal_code(code);
    (!code.is_empty()).then(|| format!("{any_beginning}{code}"))
}

fn phrase(words: &str) -> Option<String> {
    (!words.trim().is_empty()).then(|| words.to_ascii_lowercase())
}

fn name(name: &str) -> Option<String> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (!name.is_empty() && name.bytes().all(allowed)).then(|| name.to_owned())
}

fn host(host: &str) -> Option<String> {
    let is_bare = !host.contains(['/', ':', '*', ' ', '@']) && !host.starts_with('.');
    (is_bare && !host.is_empty()).then(|| host.to_owned())
}

impl Rules {
    /// Puts codes, phrases and names into the form that they are compared in, and refuses what can match nothing or means
    /// something else.
    pub(super) fn validated(mut self) -> Result<Self, ProfileError> {
        const HEADER: &str = "the name of a header";
        const CODE: &str = "a code with letters or digits";
        const WORDS: &str = "words of a message";
        check("name", [&mut self.name], name, "lower-case letters, digits and hyphens")?;
        check("hosts", &mut self.hosts, host, "a host name without scheme, port and wildcard")?;
        for status in &self.refusal_statuses {
            if !(400..600).contains(status) || StatusCode::from_u16(*status).is_err() {
                let status = status.to_string();
                return Err(ProfileError::new("refusal_statuses", &status, "an error status, 400 to 599"));
            }
        }
        let directive = self.should_retry_header.as_mut().filter(|name| !name.is_empty());
        check("should_retry_header", directive, header, HEADER)?;
        check("wait_headers", firsts(&mut self.wait_headers), header, HEADER)?;
        check("units_by_header", self.units_by_header.iter_mut().map(|(name, ..)| name), header, HEADER)?;
        self.units_by_header.iter_mut().for_each(|(_, part, _)| part.make_ascii_lowercase());
        check("wait_members", firsts(&mut self.wait_members), path, "a path such as error.retry_in")?;
        check("final_codes", &mut self.final_codes, code, CODE)?;
        check("units_by_code", firsts(&mut self.units_by_code), code, CODE)?;
        check("refusal_codes_in_success", &mut self.refusal_codes_in_success, code, CODE)?;
        check("evidence", &mut self.evidence, phrase, WORDS)?;
        check("final_phrases", &mut self.final_phrases, phrase, WORDS)?;
        check("passing_phrases", &mut self.passing_phrases, phrase, WORDS)?;
        check("long_quota_phrases", &mut self.long_quota_phrases, phrase, WORDS)?;
        check("too_large_phrases", &mut self.too_large_phrases, phrase, WORDS)?;
        check("units_by_phrase", firsts(&mut self.units_by_phrase), phrase, WORDS)?;
        Ok(self)
    }
}

fn firsts<T>(pairs: &mut [(String, T)]) -> impl Iterator<Item = &mut String> {
    pairs.iter_mut().map(|(first, _)| first)
}

fn check<'v>(
    field: &'static str,
    values: impl IntoIterator<Item = &'v mut String>,
    form: Form,
    expected: &'static str,
) -> Result<(), ProfileError> {
    for value in values {
        *value = form(value).ok_or_else(|| ProfileError::new(field, value, expected))?;
    }
    Ok(())
}
