mod lost;
mod model;
mod rules;
mod scale;
mod simulation;
mod state;
