//! Finding a signal of ours in an error that others have wrapped.

use std::error::Error;

/// The first `T` in `error` and its causes.
///
/// `reqwest_middleware::Error` passes its cause's causes off as its own, so the cause itself, which is what a middleware
/// returned, has to be looked for inside of it.
pub(crate) fn find<'a, T: Error + Send + Sync + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<T>() {
            return Some(found);
        }
        if let Some(found) = error.downcast_ref().and_then(in_middleware_error) {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// The same for an error of a stack.
pub(crate) fn in_middleware_error<T: Error + Send + Sync + 'static>(
    error: &reqwest_middleware::Error,
) -> Option<&T> {
    match error {
        // What was added as context is found by its own type only, not in the chain.
        reqwest_middleware::Error::Middleware(error) => {
            error.downcast_ref().or_else(|| error.chain().find_map(|cause| cause.downcast_ref()))
        }
        reqwest_middleware::Error::Reqwest(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ownership::{ConflictKind, RetryConflict};

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] Box<dyn Error + Send + Sync>);

    #[test]
    fn a_signal_is_found_however_it_is_wrapped() {
        let conflict = RetryConflict::new(ConflictKind::Reentry);
        let bare = conflict.clone();
        let of_a_stack = reqwest_middleware::Error::middleware(conflict.clone());
        let boxed = Outer(Box::new(reqwest_middleware::Error::middleware(conflict.clone())));
        let twice = Outer(Box::new(Outer(Box::new(conflict))));
        let other = Outer(Box::from("nothing of ours"));
        assert!(find::<RetryConflict>(&bare).is_some());
        assert!(find::<RetryConflict>(&of_a_stack).is_some());
        assert!(find::<RetryConflict>(&boxed).is_some());
        assert!(find::<RetryConflict>(&twice).is_some());
        assert!(find::<RetryConflict>(&other).is_none());
    }
}
