//! The room of a response: of its peer's unread bytes, and of those of its instance.

use super::connection::Admission;
use super::reading::ResponseRoom;

impl Admission {
    /// Waits until the peer, and its instance, may have so many bytes more unread. They count until the result is dropped, for which
    /// there is a time.
    pub(crate) async fn unread(&self, bytes: usize) -> ResponseRoom {
        let mut permits = Vec::new();
        for quota in self.connection.quotas() {
            permits.extend(quota.unread(bytes).await);
        }
        self.unread.add(bytes, permits, self.limits())
    }

    /// Whether a response has room, and is not read yet.
    pub(crate) fn has_unread(&self) -> bool {
        self.unread.is_any()
    }

    /// Most bytes of the resources of a response that can be divided: with their names and versions an instance goes on with the part
    /// that no other one uses.
    pub(crate) fn most_of_response(&self) -> usize {
        if self.connection.instance.is_some() { self.limits().unread_kept_per_instance / 2 } else { usize::MAX }
    }
}
