use std::sync::Arc;

use portcullis_api::{DiscoveredServer, Settings, with_discovered};
use serde_json::Value;

use super::answers::Answers;
use super::want::{Want, WantCache};

/// Puts what was discovered into documents.
#[derive(Default)]
pub(in super::super) struct DiscoveredDocuments {
    cache: WantCache,
    answers: Arc<Answers>,
}

impl DiscoveredDocuments {
    /// Uses these answers from now on.
    pub(in super::super) fn answer(&mut self, answers: Arc<Answers>) {
        self.answers = answers;
    }

    /// The answers in use.
    pub(in super::super) fn answers(&self) -> Arc<Answers> {
        Arc::clone(&self.answers)
    }

    /// Puts the servers into a document that has its references resolved, in the place of any that it has. Returns what has to be
    /// watched for it.
    pub(in super::super) fn put(&mut self, document: &mut Arc<Value>, settings: &Settings) -> Option<Arc<Want>> {
        let bare = with_discovered(document, None);
        let want = self.cache.want(&bare, settings);
        *document = with_discovered(&bare, self.answers.of(want.as_deref()).as_ref());
        want
    }

    /// The servers that a source has named last; `None` if it has named none and does not answer that there are none.
    pub(in super::super) fn answer_of(&self, want: &Want) -> Option<Vec<DiscoveredServer>> {
        self.answers.answer_of(want)
    }

    /// Forgets objects that are not there any more.
    pub(in super::super) fn keep(&mut self, is_there: impl Fn(&str) -> bool) {
        self.cache.keep(is_there);
    }
}
