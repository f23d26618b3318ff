//! What is kept of a request while a copy of it is on its way.

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use reqwest::Request;

/// The headers of a request whose rest stays in its place.
///
/// In one piece, since most calls never need them again: a copied `HeaderMap` has a piece for each value, and one more for
/// each that the caller has put together.
pub(super) struct Kept(Vec<u8>);

/// Enough for the headers of most requests.
const USUAL: usize = 512;

/// The request, out of its place, where a hollow one stays behind.
pub(super) fn taken(place: &mut Request) -> Request {
    let hollow = Request::new(Method::default(), place.url().clone());
    std::mem::replace(place, hollow)
}

impl Kept {
    /// A copy of the request to be sent, with its headers: what stays in its place has the rest. Takes the request out of its
    /// place where it cannot be copied, since its body is a stream.
    #[inline]
    pub(super) fn split(place: &mut Request) -> (Request, Option<Self>) {
        let headers = std::mem::take(place.headers_mut());
        let (mut going, kept) = match place.try_clone() {
            Some(copy) => (copy, Some(Self::of(&headers))),
            None => (taken(place), None),
        };
        *going.headers_mut() = headers;
        (going, kept)
    }

    /// The request, whole again, out of its place.
    pub(super) fn whole(&self, place: &mut Request) -> Option<Request> {
        *place.headers_mut() = self.headers()?;
        Some(taken(place))
    }

    fn of(headers: &HeaderMap) -> Self {
        let mut bytes = Vec::with_capacity(USUAL);
        for (name, value) in headers {
            bytes.push(u8::from(value.is_sensitive()));
            for part in [name.as_str().as_bytes(), value.as_bytes()] {
                bytes.extend_from_slice(&part.len().to_ne_bytes());
                bytes.extend_from_slice(part);
            }
        }
        Self(bytes)
    }

    fn headers(&self) -> Option<HeaderMap> {
        let mut rest = &*self.0;
        let mut headers = HeaderMap::new();
        while let Some((sensitive, after)) = rest.split_first() {
            rest = after;
            let name = HeaderName::from_bytes(part(&mut rest)?).ok()?;
            let mut value = HeaderValue::from_bytes(part(&mut rest)?).ok()?;
            value.set_sensitive(*sensitive != 0);
            headers.append(name, value);
        }
        Some(headers)
    }
}

/// Takes the next part off, which stands behind its length.
fn part<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let (length, after) = rest.split_first_chunk()?;
    let (part, after) = after.split_at_checked(usize::from_ne_bytes(*length))?;
    *rest = after;
    Some(part)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn request(headers: HeaderMap) -> Request {
        let mut request = Request::new(Method::PATCH, "https://host.example/path?query".parse().unwrap());
        *request.headers_mut() = headers;
        *request.body_mut() = Some("a body".into());
        *request.version_mut() = http::Version::HTTP_2;
        *request.timeout_mut() = Some(std::time::Duration::from_secs(7));
        request
    }

    fn lines(headers: &HeaderMap) -> Vec<(HeaderName, Vec<u8>, bool)> {
        let line = |(name, value): (&HeaderName, &HeaderValue)| {
            (name.clone(), value.as_bytes().to_vec(), value.is_sensitive())
        };
        headers.iter().map(line).collect()
    }

    fn same(one: &Request, other: &Request) {
        assert_eq!(
            (one.method(), one.url(), one.version(), one.timeout(), lines(one.headers())),
            (other.method(), other.url(), other.version(), other.timeout(), lines(other.headers()))
        );
        let bytes = |request: &Request| request.body().map(|body| body.as_bytes().map(<[u8]>::to_vec));
        assert_eq!(bytes(one), bytes(other));
    }

    proptest! {
        /// Few names, so that some come again; removing one moves another to its place.
        #[test]
        fn what_is_kept_is_what_a_clone_is(
            added in vec(("(accept|authorization|cookie|x-[a-c]|[!#$%&'*+.^_`|~0-9a-z-]{1,40})",
                vec(prop_oneof![Just(b'\t'), 32_u8..127, 128_u8..], 0..60), any::<bool>()), 0..24),
            removed in vec("(accept|authorization|cookie|x-[a-c])", 0..4),
        ) {
            let mut headers = HeaderMap::new();
            for (name, value, sensitive) in added {
                let mut value = HeaderValue::from_bytes(&value).unwrap();
                value.set_sensitive(sensitive);
                headers.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value);
            }
            for name in removed {
                headers.remove(name);
            }
            let mut place = request(headers);
            let clone = place.try_clone().unwrap();
            let (going, kept) = Kept::split(&mut place);
            same(&going, &clone);
            let whole = kept.unwrap().whole(&mut place).unwrap();
            same(&whole, &clone);
            prop_assert_eq!(whole.headers(), clone.headers());
        }
    }

    #[test]
    fn what_else_a_request_carries_is_kept_too() {
        #[derive(Clone, PartialEq, Debug)]
        struct Private(u8);
        let mut built = http::Request::builder().uri("https://host.example/").body("a body").unwrap();
        built.extensions_mut().insert(Private(7));
        let mut place = Request::try_from(built).unwrap();
        let (going, kept) = Kept::split(&mut place);
        let whole = kept.unwrap().whole(&mut place).unwrap();
        for request in [going, whole] {
            let built = http::Request::<reqwest::Body>::try_from(request).unwrap();
            assert_eq!(built.extensions().get(), Some(&Private(7)));
        }
    }

    #[test]
    fn a_stream_goes_out_and_nothing_is_kept() {
        let mut place =
            request(HeaderMap::from_iter([(http::header::ACCEPT, HeaderValue::from_static("*/*"))]));
        *place.body_mut() = Some(reqwest::Body::wrap(http_body_util::Empty::<bytes::Bytes>::new()));
        let (going, kept) = Kept::split(&mut place);
        assert!(kept.is_none());
        assert_eq!(
            (going.method(), going.headers().len(), going.body().is_some()),
            (&Method::PATCH, 1, true)
        );
    }

    #[test]
    fn what_is_cut_short_is_no_copy() {
        let kept = Kept::of(&HeaderMap::from_iter([(http::header::ACCEPT, HeaderValue::from_static("*/*"))]));
        for length in 1..kept.0.len() {
            assert!(Kept(kept.0[..length].to_vec()).headers().is_none(), "{length}");
        }
    }
}
