use super::{Policies, RequestInfo, UserInfo, UserMemo, config};

mod equals_model;
mod hostile;
mod model;
mod table;
