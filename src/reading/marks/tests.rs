use std::time::SystemTime;

use http::StatusCode;

use super::*;
use crate::Reading;

#[test]
fn the_attempts_of_a_proxy_are_read_as_they_are_looked_up() {
    let cases = [("3", 3), (" 12 ", 12), ("1", 1), ("0", 0), ("many", 0), ("-2", 0), ("many|4|5", 4)];
    for (stated, expected) in cases {
        let mut headers = HeaderMap::new();
        headers.insert("x-ratelimit-remaining", HeaderValue::from_static("9"));
        for line in stated.split('|') {
            headers.append("x-envoy-attempt-count", HeaderValue::from_static(line));
        }
        let read = Reading::from_parts(StatusCode::OK, &headers, None, SystemTime::UNIX_EPOCH);
        assert_eq!(read.proxy_attempts, NonZeroU32::new(expected), "{stated}");
        assert_eq!(read.proxy_attempts, proxy_attempts(&headers), "{stated}");
    }
}
