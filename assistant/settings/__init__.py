"""One typed, frozen Settings; its schema drives flags, forms and editor options."""
