//! What a profile may say, and the form in which it is compared.

use http::{HeaderName, StatusCode};

use super::ProfileError;
use super::rules::{Rules, normal_code};

/// The seconds of an offset such as `+08:00`.
pub(super) fn parse_offset(text: &str) -> Option<i32> {
    let (sign, rest) = match text.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = rest.split_once(':')?;
    let two = |text: &str| text.parse::<i32>().ok().filter(|_| text.len() == 2);
    let (hours, minutes) = (two(hours)?, two(minutes)?);
    let in_range = (0..=14).contains(&hours) && (0..60).contains(&minutes);
    in_range
        .then(|| hours.saturating_mul(3_600).saturating_add(minutes.saturating_mul(60)).saturating_mul(sign))
}

impl Rules {
    /// Puts codes, phrases and names into the form that they are compared in, and refuses what can match nothing or means
    /// something else.
    pub(super) fn validated(mut self) -> Result<Self, ProfileError> {
        let is_name = |name: &str| {
            !name.is_empty()
                && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        };
        if !is_name(&self.name) {
            return Err(ProfileError::new("name", &self.name, "lower-case letters, digits and hyphens"));
        }
        for host in &self.hosts {
            if host.is_empty() || host.contains(['/', ':', '*', ' ', '@']) || host.starts_with('.') {
                return Err(ProfileError::new(
                    "hosts",
                    host,
                    "a host name without scheme, port and wildcard",
                ));
            }
        }
        for status in &self.refusal_statuses {
            if !(400..600).contains(status) || StatusCode::from_u16(*status).is_err() {
                return Err(ProfileError::new(
                    "refusal_statuses",
                    &status.to_string(),
                    "an error status, 400 to 599",
                ));
            }
        }
        let headers = self.wait_headers.iter_mut().map(|(name, _)| ("wait_headers", name));
        let headers =
            headers.chain(self.units_by_header.iter_mut().map(|(name, ..)| ("units_by_header", name)));
        let directive = self.should_retry_header.as_mut().filter(|name| !name.is_empty());
        let headers = headers.chain(directive.map(|name| ("should_retry_header", name)));
        for (field, name) in headers {
            if HeaderName::try_from(name.as_str()).is_err() {
                return Err(ProfileError::new(field, name, "the name of a header"));
            }
            name.make_ascii_lowercase();
        }
        for (path, _) in &mut self.wait_members {
            if path.is_empty() || path.contains(char::is_whitespace) {
                return Err(ProfileError::new("wait_members", path, "a path such as error.retry_in"));
            }
            path.make_ascii_lowercase();
        }
        let codes = self.final_codes.iter_mut().map(|code| ("final_codes", code));
        let codes = codes.chain(self.units_by_code.iter_mut().map(|(code, _)| ("units_by_code", code)));
        let in_success =
            self.refusal_codes_in_success.iter_mut().map(|code| ("refusal_codes_in_success", code));
        for (field, code) in codes.chain(in_success) {
            let any_beginning = if code.starts_with('*') { "*" } else { "" };
            let normal = format!("{any_beginning}{}", normal_code(code));
            if normal.trim_start_matches('*').is_empty() {
                return Err(ProfileError::new(field, code, "a code with letters or digits"));
            }
            *code = normal;
        }
        self.validated_phrases()
    }

    fn validated_phrases(mut self) -> Result<Self, ProfileError> {
        let lists = [
            ("evidence", &mut self.evidence),
            ("final_phrases", &mut self.final_phrases),
            ("passing_phrases", &mut self.passing_phrases),
            ("long_quota_phrases", &mut self.long_quota_phrases),
            ("too_large_phrases", &mut self.too_large_phrases),
        ];
        let lists =
            lists.into_iter().flat_map(|(field, list)| list.iter_mut().map(move |phrase| (field, phrase)));
        let units = self.units_by_phrase.iter_mut().map(|(phrase, _)| ("units_by_phrase", phrase));
        let parts = self.units_by_header.iter_mut().map(|(_, part, _)| part);
        parts.for_each(|part| part.make_ascii_lowercase());
        for (field, phrase) in lists.chain(units) {
            if phrase.trim().is_empty() {
                return Err(ProfileError::new(field, phrase, "words of a message"));
            }
            phrase.make_ascii_lowercase();
        }
        Ok(self)
    }
}
