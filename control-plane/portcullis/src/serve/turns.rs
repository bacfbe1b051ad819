//! Turns: responses that are made at a time. A request that waits for another program or another request has none meanwhile.

use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The number of responses that are made at a time; further requests get 503 with Retry-After.
const MAX_AT_ONCE: usize = 16;

tokio::task_local! {
    static TURN: Turn;
}

/// The turn of a request.
struct Turn {
    turns: Arc<Semaphore>,
    held: Mutex<Option<OwnedSemaphorePermit>>,
}

/// The turns of all requests.
pub(super) fn turns() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(MAX_AT_ONCE))
}

/// Answers a request if there is a turn for it.
pub(super) async fn take_turns(State(turns): State<Arc<Semaphore>>, request: Request, next: Next) -> Response {
    match Arc::clone(&turns).try_acquire_owned() {
        Ok(turn) => TURN.scope(Turn { turns, held: Mutex::new(Some(turn)) }, next.run(request)).await,
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "1")], "busy\n").into_response(),
    }
}

/// Waits without a turn, and takes one again afterwards.
pub(super) async fn without_turn<T>(wait: impl Future<Output = T>) -> T {
    let held = TURN.try_with(|turn| (Arc::clone(&turn.turns), turn.replace(None)));
    let Ok((turns, Some(held))) = held else { return wait.await };
    drop(held);
    let result = wait.await;
    // The semaphore is never closed; those who wait longest come first.
    let turn = turns.acquire_owned().await.ok();
    let _ = TURN.try_with(|one| one.replace(turn));
    result
}

impl Turn {
    fn replace(&self, turn: Option<OwnedSemaphorePermit>) -> Option<OwnedSemaphorePermit> {
        std::mem::replace(&mut *self.held.lock().unwrap_or_else(PoisonError::into_inner), turn)
    }
}
