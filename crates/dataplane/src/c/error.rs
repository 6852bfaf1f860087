//! Why the last call failed, and texts that C hands in.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};

thread_local! {
    static ERROR: RefCell<CString> = RefCell::default();
}

/// The call fails for this reason.
pub(super) fn fail(why: impl std::fmt::Display) {
    let text = CString::new(why.to_string().replace('\0', "?")).unwrap_or_default();
    ERROR.with(|error| *error.borrow_mut() = text);
}

/// Why the last call on this thread failed. Valid until the next call that fails.
pub(super) fn last() -> *const c_char {
    ERROR.with(|error| error.borrow().as_ptr())
}

/// A text that C hands in; fails, and gives `None`, when it is none.
///
/// # Safety
/// `text` is null or ends with a zero byte.
pub(super) unsafe fn text<'a>(text: *const c_char, what: &str) -> Option<&'a str> {
    if text.is_null() {
        fail(format_args!("{what} is null"));
        return None;
    }
    // SAFETY: not null; the caller guarantees for the end.
    let text = unsafe { CStr::from_ptr(text) }.to_str();
    if text.is_err() {
        fail(format_args!("{what} is not UTF-8"));
    }
    text.ok()
}
