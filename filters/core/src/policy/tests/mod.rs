use super::{Policies, RequestInfo, UserInfo, UserMemo, Walk, config};

mod equals_model;
mod hostile;
mod table;
