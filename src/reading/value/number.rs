//! Numbers: digits with at most one dot, and the counts of a limit.

/// A non-negative decimal number, exact to nine places and rounded up beyond them; one that is out of all proportion is
/// the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::reading) struct Decimal(u128);

const BILLION: u64 = 1_000_000_000;

/// The most digits that a machine word surely holds.
const MAX_DIGITS: usize = 18;

impl Decimal {
    pub(in crate::reading) const ZERO: Self = Self(0);

    /// This and so many billionths more, rounded up.
    pub(in crate::reading) fn plus_billionths(self, more: Self) -> Option<Self> {
        let more = Some(more.0).filter(|more| *more < u128::MAX)?;
        self.0.checked_add(more.div_ceil(super::NANOS_PER_SEC)).map(Self)
    }

    pub(in crate::reading) fn of_whole(whole: u64) -> Self {
        Self(u128::from(whole).wrapping_mul(super::NANOS_PER_SEC))
    }

    /// The number of which `scaled` is 10⁹ times as much.
    pub(super) fn of_nanos(scaled: u64) -> Self {
        Self(u128::from(scaled))
    }

    /// The number times 10⁹: read as seconds, its nanoseconds.
    pub(in crate::reading) const fn nanos(self) -> u128 {
        self.0
    }
}

/// Reads the number that `bytes` begins with and gives back the rest.
///
/// `1*DIGIT` of [RFC 9110 §10.2.3] with the fraction that many servers add; no sign and no exponent, which the
/// number parsers of most languages would take.
///
/// [RFC 9110 §10.2.3]: https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3
pub(in crate::reading) fn scan_decimal(bytes: &[u8]) -> Option<(Decimal, &[u8])> {
    let (word, count) = scan_digits(bytes.get(..MAX_DIGITS).unwrap_or(bytes));
    let mut rest = bytes.get(count..)?;
    let mut digits = count > 0;
    let mut whole = u128::from(word);
    while let [digit @ b'0'..=b'9', tail @ ..] = rest {
        whole = whole.saturating_mul(10).saturating_add(u128::from(digit.wrapping_sub(b'0')));
        rest = tail;
    }
    let mut fraction: u64 = 0;
    let mut inexact = false;
    if let [b'.', tail @ ..] = rest {
        rest = tail;
        let mut place = BILLION;
        while let [digit @ b'0'..=b'9', tail @ ..] = rest {
            let digit = u64::from(digit.wrapping_sub(b'0'));
            place /= 10;
            fraction = fraction.wrapping_add(digit.wrapping_mul(place));
            inexact |= place == 0 && digit != 0;
            digits = true;
            rest = tail;
        }
    }
    if !digits {
        return None;
    }
    let scaled = whole.saturating_mul(super::NANOS_PER_SEC).saturating_add(u128::from(fraction));
    Some((Decimal(scaled.saturating_add(u128::from(inexact))), rest))
}

/// What the last of up to nine places stands for, in billionths.
pub(in crate::reading::value) const PLACES: [u64; 10] =
    [BILLION, 100_000_000, 10_000_000, 1_000_000, 100_000, 10_000, 1_000, 100, 10, 1];

/// What [`scan_decimal`] reads, where the number is of the usual kind: of up to nine digits and as many places.
#[inline]
pub(super) fn scan_usual(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (whole, count) = scan_digits(bytes);
    if !(1..=9).contains(&count) {
        return None;
    }
    let (scaled, rest) = (whole.wrapping_mul(BILLION), bytes.get(count..)?);
    let [b'.', digits @ ..] = rest else { return Some((scaled, rest)) };
    let (fraction, count) = scan_digits(digits);
    let place = PLACES.get(count)?;
    Some((scaled.wrapping_add(fraction.wrapping_mul(*place)), digits.get(count..)?))
}

/// The number that `bytes` begins with, and how many digits it has, which may be more than it can hold.
#[inline]
pub(in crate::reading) fn scan_digits(bytes: &[u8]) -> (u64, usize) {
    let mut number: u64 = 0;
    let mut count: usize = 0;
    for byte in bytes {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        number = number.wrapping_mul(10).wrapping_add(u64::from(digit));
        count = count.wrapping_add(1);
    }
    (number, count)
}

/// Reads a number that is the whole value.
pub(in crate::reading) fn decimal(bytes: &[u8]) -> Option<Decimal> {
    match scan_decimal(bytes)? {
        (number, []) => Some(number),
        _ => None,
    }
}

/// Reads a number of JSON ([RFC 8259 §6]) that is not negative; unlike in headers it may have an exponent.
///
/// [RFC 8259 §6]: https://www.rfc-editor.org/rfc/rfc8259#section-6
pub(in crate::reading) fn json_decimal(bytes: &[u8]) -> Option<Decimal> {
    let Some(at) = bytes.iter().position(|byte| matches!(byte, b'e' | b'E')) else { return decimal(bytes) };
    let (significand, exponent) = bytes.split_at_checked(at)?;
    let (down, digits) = match exponent.get(1..)? {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] | digits => (false, digits),
    };
    let exponent = u32::try_from(plain_number(digits)?).unwrap_or(u32::MAX);
    // The significand's digits without their dot, and how many of them stand behind it.
    let dot = significand.iter().position(|byte| *byte == b'.');
    let places = dot.map_or(0, |dot| significand.len().saturating_sub(dot).saturating_sub(1));
    decimal(significand)?;
    let mut number: u128 = 0;
    for digit in significand.iter().filter(|byte| **byte != b'.') {
        number = number.saturating_mul(10).saturating_add(u128::from(digit.wrapping_sub(b'0')));
    }
    if number == 0 {
        return Some(Decimal(0));
    }
    // Nine places more, for a decimal is kept times 10⁹.
    let (up, down) = if down { (9, exponent) } else { (exponent.saturating_add(9), 0) };
    let down = down.saturating_add(u32::try_from(places).ok()?);
    let power = |exponent: u32| 10_u128.checked_pow(exponent);
    if up >= down {
        let power = 10_u128.saturating_pow(up.saturating_sub(down));
        return Some(Decimal(number.saturating_mul(power)));
    }
    // A number of 38 digits divided by a greater power is next to nothing, and rounded up as everything is.
    Some(Decimal(power(down.saturating_sub(up)).map_or(1, |power| number.div_ceil(power))))
}

/// Reads a whole number of digits alone, and not too many of them: what nearly all counts are.
#[inline]
pub(in crate::reading) fn plain_number(bytes: &[u8]) -> Option<u64> {
    if bytes.len() <= 8 { up_to_eight_digits(bytes) } else { long_number(bytes) }
}

fn long_number(bytes: &[u8]) -> Option<u64> {
    if bytes.len() > MAX_DIGITS {
        return None;
    }
    let (head, tail) = bytes.split_last_chunk::<8>()?;
    Some(plain_number(head)?.wrapping_mul(100_000_000).wrapping_add(up_to_eight_digits(tail)?))
}

/// Reads digits all at once, each in its byte of a machine word, the last one in the highest.
#[inline]
fn up_to_eight_digits(bytes: &[u8]) -> Option<u64> {
    const ZEROS: u64 = u64::from_ne_bytes([b'0'; 8]);
    /// What makes the top bit of every byte beyond 9 one.
    const BEYOND_NINE: u64 = u64::from_ne_bytes([0x80 - 10; 8]);
    const TOPS: u64 = u64::from_ne_bytes([0x80; 8]);

    let unused = 64_u32.checked_sub(u32::try_from(bytes.len().checked_mul(8)?).ok()?)?;
    let word = match (bytes, bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        // Both halves have the bytes in the middle where there are less than eight.
        (_, Some(first), Some(last)) => {
            let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
            u64::from(first) | u64::from(last).wrapping_shl(32_u32.wrapping_sub(unused))
        }
        ([a, b, c], ..) => u64::from_le_bytes([*a, *b, *c, 0, 0, 0, 0, 0]),
        ([a, b], ..) => u64::from_le_bytes([*a, *b, 0, 0, 0, 0, 0, 0]),
        ([a], ..) => u64::from(*a),
        _ => return None,
    };
    let digits = (word ^ ZEROS).wrapping_shl(unused);
    if (digits.wrapping_add(BEYOND_NINE) | digits) & TOPS != 0 {
        return None;
    }
    // Neighbours make a number of two digits, then of four, then of eight; each is in the lower one's place.
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = pairs.wrapping_mul(100).wrapping_add(pairs >> 16) & 0x0000_ffff_0000_ffff;
    Some(fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xffff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals() {
        let nanos = |text: &str| decimal(text.as_bytes()).map(Decimal::nanos);
        assert_eq!(nanos("120"), Some(120_000_000_000));
        assert_eq!(nanos("2.0"), Some(2_000_000_000));
        assert_eq!(nanos(".5"), Some(500_000_000));
        assert_eq!(nanos("5."), Some(5_000_000_000));
        assert_eq!(nanos("0.0000000001"), Some(1));
        assert_eq!(nanos("0.0000000000"), Some(0));
        assert_eq!(nanos("0000000000000000000000000000000000000000000000000007"), Some(7_000_000_000));
        assert_eq!(nanos("1.2.3"), None);
        assert_eq!(nanos("1_000"), None);
    }

    #[test]
    fn numbers_of_json() {
        let nanos = |text: &str| json_decimal(text.as_bytes()).map(Decimal::nanos);
        for (text, expected) in [
            ("7", Some(7_000_000_000)),
            ("2.5", Some(2_500_000_000)),
            ("1e2", Some(100_000_000_000)),
            ("1E+2", Some(100_000_000_000)),
            ("1.5E3", Some(1_500_000_000_000)),
            ("1.5e-3", Some(1_500_000)),
            ("1e-7", Some(100)),
            ("1e-9", Some(1)),
            ("1.1e-9", Some(2)),
            ("1e-400", Some(1)),
            ("0e-400", Some(0)),
            ("0.0e400", Some(0)),
            ("1.7e9", Some(1_700_000_000_000_000_000)),
            ("1e00000000002", Some(100_000_000_000)),
            ("1e29", Some(100_000_000_000_000_000_000_000_000_000_000_000_000)),
            ("1e30", Some(u128::MAX)),
            ("1e400", Some(u128::MAX)),
            ("-1e2", None),
            ("-7", None),
            ("1e", None),
            ("1e+", None),
            ("1e2.5", None),
            ("1e2s", None),
            ("1e--2", None),
            ("e2", None),
            (".e2", None),
            ("1.2.3e2", None),
            ("", None),
        ] {
            assert_eq!(nanos(text), expected, "{text}");
        }
    }

    #[test]
    fn a_word_at_once_reads_what_digits_one_by_one_do() {
        let read = |text: &[u8]| match decimal(text) {
            Some(number) if text.iter().all(u8::is_ascii_digit) => {
                u64::try_from(number.nanos() / 1_000_000_000).ok()
            }
            _ => None,
        };
        let digits = b"908172635400998877";
        for from in 0..digits.len() {
            for to in from..=digits.len() {
                let text = &digits[from..to];
                assert_eq!(plain_number(text), read(text), "{text:?}");
                for at in 0..text.len() {
                    for other in [b'/', b':', b'.', b' ', b'-', 0x00, 0x40, 0x80, 0x89, 0x8a, 0xb0, 0xff] {
                        let mut text = text.to_vec();
                        text[at] = other;
                        assert_eq!(plain_number(&text), None, "{text:?}");
                    }
                }
            }
        }
        assert_eq!(plain_number(b"999999999999999999"), Some(999_999_999_999_999_999));
        assert_eq!(plain_number(b"1000000000000000000"), None);
    }

    #[test]
    fn the_usual_way_is_the_general_way() {
        for text in
            ["0", "7s", "007ms", "999999999s", "1.5", "1.", "5.s", "1.123456789s", "0.000000001", "12.3.4"]
        {
            let (scaled, rest) = scan_usual(text.as_bytes()).unwrap();
            assert_eq!(Some((Decimal::of_nanos(scaled), rest)), scan_decimal(text.as_bytes()), "{text}");
        }
        for text in ["", "s", ".5", "-1", "1000000000", "0000000001", "1.1234567891", "0.0000000000"] {
            assert_eq!(scan_usual(text.as_bytes()), None, "{text}");
        }
    }
}
