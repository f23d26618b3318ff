//! Who signed a request: of a signature, which is another one each time, only the key's name tells callers apart.

/// The part of an `Authorization` value that stays the same from request to request.
///
/// A signed request names its key and then signs itself (AWS Signature Version 4 and those modelled on it, Version 2,
/// Azure's shared key, HTTP signatures, OAuth 1, HTTP digest). Anything else is a credential as a whole.
pub(super) fn identity(value: &[u8]) -> &[u8] {
    let Some(space) = value.iter().take(LONGEST_SCHEME).position(|byte| *byte == b' ') else { return value };
    let Some((scheme, rest)) = value.split_at_checked(space) else { return value };
    let named = match scheme {
        b"AWS" | b"SharedKey" | b"SharedKeyLite" => rest.split(|byte| *byte == b':').next(),
        b"Signature" => parameter(rest, b"keyId="),
        b"Digest" => parameter(rest, b"username="),
        // The token names the user; a consumer without one is limited by itself.
        b"OAuth" => parameter(rest, b"oauth_token=").or_else(|| parameter(rest, b"oauth_consumer_key=")),
        // The date and the region follow behind a slash.
        _ if scheme.ends_with(b"-SHA256") => {
            parameter(rest, b"Credential=").and_then(|key| key.split(|byte| *byte == b'/').next())
        }
        _ => None,
    };
    named.filter(|named| !named.is_empty()).unwrap_or(value)
}

/// The longest name of a scheme that is looked for, in bytes.
const LONGEST_SCHEME: usize = 24;

/// The value of a parameter, without its quotes.
fn parameter<'a>(parameters: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    parameters.split(|byte| *byte == b',').find_map(|parameter| {
        let value = parameter.trim_ascii().strip_prefix(name)?;
        Some(value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value))
    })
}

#[cfg(test)]
mod tests {
    use super::identity;

    fn of(value: &str) -> &str {
        std::str::from_utf8(identity(value.as_bytes())).unwrap()
    }

    #[test]
    fn a_signature_is_known_by_its_key() {
        for (value, key) in [
            (
                "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261130/us-east-1/bedrock/aws4_request, SignedHeaders=host, Signature=5d67",
                "AKIDEXAMPLE",
            ),
            ("AWS4-ECDSA-P256-SHA256 Credential=AKID/20261130/s3/aws4_request,Signature=30", "AKID"),
            ("TC3-HMAC-SHA256 SignedHeaders=host, Credential=AKIDz8/2026-11-30/cvm/tc3_request", "AKIDz8"),
            ("AWS AKIDEXAMPLE:frJIUN8DYpKDtOLCwo//yllqDzg=", " AKIDEXAMPLE"),
            ("SharedKey account:ctzMq410TV3wS7upTBcunJTDLEJwMAZuFPfr0mrrA08=", " account"),
            (r#"Signature keyId="key-1",algorithm="hs2019",signature="Y2FiY2Fi""#, "key-1"),
            (r#"Digest username="Mufasa", realm="a", nonce="7ypf", response="75""#, "Mufasa"),
            (
                r#"OAuth oauth_consumer_key="app", oauth_nonce="x1", oauth_token="user", oauth_signature="b""#,
                "user",
            ),
            (r#"OAuth oauth_consumer_key="app", oauth_nonce="x2""#, "app"),
        ] {
            assert_eq!(of(value), key);
        }
    }

    #[test]
    fn any_other_credential_counts_as_a_whole() {
        for value in [
            "Bearer sk-1",
            "Basic dXNlcjpwYXNz",
            "sk-1",
            "OAuth ya29.token",
            "AWS4-HMAC-SHA256 Signature=5d67",
            "AWS4-HMAC-SHA256 Credential=, Signature=5d67",
            "",
            " ",
        ] {
            assert_eq!(of(value), value);
        }
    }
}
