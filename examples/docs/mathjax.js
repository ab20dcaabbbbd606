MathJax.Hub.Config({
  showMathMenu: false,
  messageStyle: "none"
});
