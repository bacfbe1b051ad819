use std::sync::{Mutex, MutexGuard, PoisonError};

/// A panic elsewhere leaves the maps whole: each change is one insertion or removal.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
