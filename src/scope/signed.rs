//! Who signed a request: of a signature, which is another one each time, only the key's name tells callers apart.

use std::borrow::Cow;

/// The part of an `Authorization` value that stays the same from request to request.
///
/// A signed request names its key and then signs itself. Where the key cannot be told without doubt, and for anything
/// that is no signature, the value counts as a whole: two callers in one scope hold each other up, but a scope too many
/// only learns anew.
pub(super) fn identity(value: &[u8]) -> Cow<'_, [u8]> {
    signer(value).filter(|signer| !signer.is_empty()).unwrap_or(Cow::Borrowed(value))
}

/// The longest name of a scheme that is looked for, in bytes.
const LONGEST_SCHEME: usize = 24;

/// Schemes that name their key by parameters, all of which count; the byte is between them. A scheme's name has no case
/// (RFC 9110 11.1), and is in lower case here.
const BY_PARAMETERS: [(&[u8], u8, &[&str]); 6] = [
    (b"signature", b',', &["keyId"]),
    (b"digest", b',', &["username", "username*"]),
    // Two consumers may have tokens of one name.
    (b"oauth", b',', &["oauth_token", "oauth_consumer_key"]),
    (b"hawk", b',', &["id"]),
    // Two resources may have policies of one name, and a device has none.
    (b"sharedaccesssignature", b'&', &["skn", "sr"]),
    (b"sdk-hmac-sha256", b',', &["Access"]),
];

/// Schemes that name their key before a colon: version 2 of Amazon's, and Azure's storage.
const BEFORE_COLON: [&[u8]; 3] = [b"aws", b"sharedkey", b"sharedkeylite"];

fn signer(value: &[u8]) -> Option<Cow<'_, [u8]>> {
    // What most requests have.
    if value.starts_with(b"Bearer ") {
        return None;
    }
    let space = value.iter().take(LONGEST_SCHEME).position(|byte| *byte == b' ')?;
    let (scheme, rest) = value.split_at_checked(space)?;
    let is = |name: &[u8]| scheme.eq_ignore_ascii_case(name);
    if let Some((_, separator, names)) = BY_PARAMETERS.iter().find(|(name, _, _)| is(name)) {
        return joined(rest, *separator, names);
    }
    let key = if BEFORE_COLON.iter().any(|name| is(name)) {
        before(rest, b':')?.trim_ascii()
    } else if is(b"HMAC-SHA256") && rest.contains(&b'&') {
        // Azure's, whose names of keys may have slashes. Volcengine's of the same name is of the form below.
        parameter(rest, b'&', "Credential")?
    } else if scheme.last_chunk().is_some_and(|end: &[u8; 7]| end.eq_ignore_ascii_case(b"-SHA256")) {
        // Version 4 of Amazon's and those modelled on it: the date and the region follow behind a slash, if at all.
        let credential = parameter(rest, b',', "Credential")?;
        before(credential, b'/').unwrap_or(credential)
    } else {
        return None;
    };
    Some(Cow::Borrowed(key))
}

fn before(value: &[u8], end: u8) -> Option<&[u8]> {
    value.get(..value.iter().position(|byte| *byte == end)?)
}

/// The values of all these parameters, with a newline between them, which no header has.
fn joined<'a>(parameters: &'a [u8], separator: u8, names: &[&str]) -> Option<Cow<'a, [u8]>> {
    let mut joined = Cow::Borrowed(b"".as_slice());
    for (index, name) in names.iter().enumerate() {
        let value = parameter(parameters, separator, name)?;
        if index == 0 {
            joined = Cow::Borrowed(value);
        } else if !value.is_empty() {
            let joined = joined.to_mut();
            joined.push(b'\n');
            joined.extend_from_slice(value);
        }
    }
    Some(joined)
}

/// The value of a parameter, without its quotes, and empty if it is missing. None if it stands twice, or if
/// there is anything but `name=value` and `name="value"`: another reader may see other parameters there.
fn parameter<'a>(parameters: &'a [u8], separator: u8, name: &str) -> Option<&'a [u8]> {
    let (mut quoted, mut escaped) = (false, false);
    let parts = parameters.split(|byte| {
        let literal = std::mem::take(&mut escaped);
        match byte {
            b'\\' if !literal => escaped = quoted,
            b'"' if !literal => quoted = !quoted,
            _ => {}
        }
        !quoted && *byte == separator
    });
    let mut found = None;
    for part in parts.map(<[u8]>::trim_ascii).filter(|part| !part.is_empty()) {
        let key = before(part, b'=')?;
        let value = unquoted(part.strip_prefix(key)?.strip_prefix(b"=")?.trim_ascii())?;
        let key = key.trim_ascii();
        if key.contains(&b'"')
            || (key.eq_ignore_ascii_case(name.as_bytes()) && found.replace(value).is_some())
        {
            return None;
        }
    }
    Some(found.unwrap_or_default())
}

/// None if quotes do not match, or stand elsewhere than around the value.
fn unquoted(value: &[u8]) -> Option<&[u8]> {
    let Some(rest) = value.strip_prefix(b"\"") else { return (!value.contains(&b'"')).then_some(value) };
    let inner = rest.strip_suffix(b"\"")?;
    let mut escaped = false;
    let ends_early = inner.iter().any(|byte| {
        let literal = std::mem::take(&mut escaped);
        escaped = !literal && *byte == b'\\';
        !literal && *byte == b'"'
    });
    (!ends_early && !escaped).then_some(inner)
}

#[cfg(test)]
mod tests {
    use super::identity;

    fn of(value: &str) -> String {
        String::from_utf8(identity(value.as_bytes()).into_owned()).unwrap()
    }

    #[test]
    fn a_signature_is_known_by_its_key() {
        for (value, key) in [
            (
                "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261130/us-east-1/bedrock/aws4_request, SignedHeaders=host, Signature=5d67",
                "AKIDEXAMPLE",
            ),
            ("AWS4-ECDSA-P256-SHA256 Credential=AKID/20261130/s3/aws4_request,Signature=30", "AKID"),
            ("aws4-hmac-sha256 credential=AKID/20261130/s3/aws4_request,Signature=30", "AKID"),
            ("TC3-HMAC-SHA256 SignedHeaders=host, Credential=AKIDz8/2026-11-30/cvm/tc3_request", "AKIDz8"),
            ("HMAC-SHA256 Credential=AK/20261130/cn/iam/request, SignedHeaders=host, Signature=1", "AK"),
            ("HMAC-SHA256 Credential=a/b&SignedHeaders=host&Signature=1", "a/b"),
            ("ACS3-HMAC-SHA256 Credential=key,SignedHeaders=host,Signature=1", "key"),
            ("SDK-HMAC-SHA256 Access=key, SignedHeaders=host, Signature=1", "key"),
            ("AWS AKIDEXAMPLE:frJIUN8DYpKDtOLCwo//yllqDzg=", "AKIDEXAMPLE"),
            ("SharedKey account:ctzMq410TV3wS7upTBcunJTDLEJwMAZuFPfr0mrrA08=", "account"),
            ("sharedkeylite account:ctzM", "account"),
            ("SharedAccessSignature sr=hub%2fx&sig=1&se=1&skn=policy", "policy\nhub%2fx"),
            ("SharedAccessSignature sr=hub%2fdevice&sig=1&se=1", "\nhub%2fdevice"),
            (r#"Signature keyId="key-1",algorithm="hs2019",signature="Y2FiY2Fi""#, "key-1"),
            (r#"Signature KEYID = "key-1" , signature="Y2FiY2Fi","#, "key-1"),
            (r#"Hawk id="key-1", ts="1", nonce="j4h3g2", mac="6R4r=""#, "key-1"),
            (r#"Digest username="Mufasa", realm="a", nonce="7ypf", response="75""#, "Mufasa"),
            (r#"digest username*=UTF-8''J%C3%A4, nonce="7ypf""#, "\nUTF-8''J%C3%A4"),
            (r#"Digest username="Smith, \"J\"", nonce="7ypf""#, r#"Smith, \"J\""#),
            (
                r#"OAuth oauth_consumer_key="app", oauth_nonce="x1", oauth_token="user", oauth_signature="b""#,
                "user\napp",
            ),
            (r#"OAuth oauth_consumer_key="app", oauth_nonce="x2""#, "\napp"),
            (r#"OAuth oauth_consumer_key="app", oauth_token="", oauth_nonce="x2""#, "\napp"),
        ] {
            assert_eq!(of(value), key, "{value}");
        }
    }

    #[test]
    fn no_two_callers_are_one() {
        for (one, other) in [
            (r#"Digest username="Smith, John", nonce="1""#, r#"Digest username="Smith, Jane", nonce="2""#),
            (
                r#"Digest realm="x, username=q", username="a""#,
                r#"Digest realm="x, username=q", username="b""#,
            ),
            (r#"Digest username="a\", b", nonce="1""#, r#"Digest username="a\", c", nonce="1""#),
            (
                r#"Signature keyId="CN=x,O=acme",signature="a""#,
                r#"Signature keyId="CN=x,O=evil",signature="a""#,
            ),
            (
                r#"OAuth realm="a, oauth_token=z", oauth_token="u1""#,
                r#"OAuth realm="a, oauth_token=z", oauth_token="u2""#,
            ),
            (
                r#"OAuth oauth_consumer_key="a", oauth_token="t""#,
                r#"OAuth oauth_consumer_key="b", oauth_token="t""#,
            ),
            (r#"OAuth oauth_token="t""#, r#"OAuth oauth_consumer_key="t""#),
            ("OAuth a,oauth_token=x", "OAuth b,oauth_token=x"),
            ("HMAC-SHA256 Credential=a&Signature=1", "HMAC-SHA256 Credential=b&Signature=1"),
            ("SharedAccessSignature sr=a&sig=1&skn=send", "SharedAccessSignature sr=b&sig=1&skn=send"),
        ] {
            assert_ne!(of(one), of(other));
        }
    }

    #[test]
    fn any_other_credential_counts_as_a_whole() {
        for value in [
            "Bearer sk-1",
            "Basic dXNlcjpwYXNz",
            "sk-1",
            "OAuth ya29.token",
            "AWS key",
            "AWS4-HMAC-SHA256 Signature=5d67",
            "AWS4-HMAC-SHA256 Credential=, Signature=5d67",
            "AWS4-HMAC-SHA256 Credential=/20261130, Signature=5d67",
            "",
            " ",
        ] {
            assert_eq!(of(value), value);
        }
    }

    #[test]
    fn a_credential_that_can_be_read_in_two_ways_counts_as_a_whole() {
        for value in [
            r#"Digest username="a, nonce="1""#,
            r#"Digest username="a"#,
            r#"Digest username="a\"#,
            r#"Digest username="a\""#,
            r#"Digest username=""#,
            r#"Digest username="a"b, nonce="1""#,
            r#"Digest username=a"b", nonce="1""#,
            r#"Digest username="a", username="b""#,
            r#"Digest username="a", Username="a""#,
            r#"Digest username="a", "x"y=1"#,
            r#"Digest username="a", realm="x"#,
            r#"Digest username="a", realm=x"y, z""#,
            r#"Digest username="a", token68"#,
            r#"OAuth oauth_token="a", oauth_consumer_key="b", oauth_consumer_key="c""#,
            r#"OAuth oauth_token="", oauth_consumer_key="""#,
        ] {
            assert_eq!(of(value), value);
        }
    }

    #[test]
    fn a_credential_of_any_length_is_read_once_over() {
        for part in ["\"", "\\", ",", "a=1,", "=", "a=\"\\\"\","] {
            let value = format!("Digest {}", part.repeat(200_000));
            assert_eq!(of(&value), value);
        }
    }
}
